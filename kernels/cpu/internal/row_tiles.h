// kernels/cpu/internal/row_tiles.h: rows taken in tiles whose height is known to the compiler.
#pragma once

#include <cstdint>

namespace caption::kernels::cpu {

// In place of std::integral_constant: tier files include nothing inline from std. Each tier has its
// own.
template <class Simd, int kCount>
struct RowCount {
  constexpr int operator()() const { return kCount; }
};

template <class Simd, int kMaxRows, class Work>
void call_with_rows(std::int64_t rows, const Work& work) {
  if constexpr (kMaxRows > 1) {
    if (rows < kMaxRows) return call_with_rows<Simd, kMaxRows - 1>(rows, work);
  }
  work(RowCount<Simd, kMaxRows>());
}

// work(m, RowCount<Simd, rows>()) for tiles of at most kMaxRows that cover `num_rows`, as
// equal in height as they can be: a last row by itself would take almost as long as a full tile.
template <class Simd, int kMaxRows, class Work>
void for_row_tiles(std::int64_t num_rows, const Work& work) {
  for (std::int64_t m = 0; m < num_rows;) {
    const std::int64_t left = num_rows - m;
    const std::int64_t tiles = (left + kMaxRows - 1) / kMaxRows;
    const std::int64_t rows = (left + tiles - 1) / tiles;
    call_with_rows<Simd, kMaxRows>(rows, [&](auto count) { work(m, count); });
    m += rows;
  }
}

}  // namespace caption::kernels::cpu
