#include "weights/internal/code_rows.h"

#include <cstddef>
#include <vector>

namespace caption::weights {

void reorder_columns(const ColumnOrder& order, bool is_4_bit, std::span<std::uint8_t> row) {
  if (order == nullptr) return;
  const std::int32_t* const column = order->data();
  const std::size_t columns = order->size();
  if (!is_4_bit) {
    const std::vector<std::uint8_t> from(row.begin(), row.end());
    for (std::size_t k = 0; k < columns; ++k) row[k] = from[static_cast<std::size_t>(column[k])];
    return;
  }
  // A byte for each column, so that columns are gathered without shifts.
  std::vector<std::uint8_t> codes(2 * row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    codes[2 * i] = row[i] & 15;
    codes[2 * i + 1] = row[i] >> 4;
  }
  const std::uint8_t* const code = codes.data();
  std::uint8_t* const to = row.data();
  for (std::size_t i = 0; i < columns / 2; ++i) {
    to[i] = static_cast<std::uint8_t>(code[column[2 * i]] | code[column[2 * i + 1]] << 4);
  }
  if (columns % 2 != 0) to[columns / 2] = code[column[columns - 1]];
}

}  // namespace caption::weights
