#include "weights/internal/code_rows.h"

#include <cstddef>
#include <vector>

namespace caption::weights {

void reorder_columns(const ColumnOrder& order, bool is_4_bit, std::span<std::uint8_t> row) {
  if (order == nullptr) return;
  const std::vector<std::uint8_t> from(row.begin(), row.end());
  const std::size_t columns = order->size();
  if (!is_4_bit) {
    for (std::size_t k = 0; k < columns; ++k) row[k] = from[static_cast<std::size_t>((*order)[k])];
    return;
  }
  const auto code = [&](std::size_t k) {
    const auto column = static_cast<std::uint32_t>((*order)[k]);
    return from[column / 2] >> (column % 2 * 4) & 15;
  };
  for (std::size_t k = 0; k < columns; k += 2) {
    const int high = k + 1 < columns ? code(k + 1) : 0;
    row[k / 2] = static_cast<std::uint8_t>(code(k) | high << 4);
  }
}

}  // namespace caption::weights
