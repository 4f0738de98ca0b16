// tests/kernels/ordered_rows.h: row-major matrices in the order that the panel functions of a tier
// read (kernels/cpu/row_order.h).
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/row_order.h"

namespace caption::testing {

template <class T>
struct OrderedRows {
  std::vector<T> elements;
  std::int64_t stride;
};

template <class T>
OrderedRows<T> ordered_rows(const std::vector<T>& rows, std::int64_t num_rows,
                            std::int64_t num_columns, bool has_tiled_rows) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  const kernels::cpu::RowOrder order(has_tiled_rows, num_rows, num_columns * kSize);
  OrderedRows<T> ordered{.elements = {}, .stride = order.row_bytes() / kSize};
  ordered.elements.resize(static_cast<std::size_t>(num_rows * ordered.stride));
  order.write_rows(reinterpret_cast<std::byte*>(ordered.elements.data()), 0, num_rows,
                   [&](std::int64_t m, std::byte* to) {
                     std::fill_n(to, order.row_bytes(), std::byte{0});
                     std::memcpy(to, rows.data() + m * num_columns,
                                 static_cast<std::size_t>(num_columns * kSize));
                   });
  return ordered;
}

}  // namespace caption::testing
