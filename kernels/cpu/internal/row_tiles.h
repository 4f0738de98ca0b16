// kernels/cpu/internal/row_tiles.h: splits rows into tiles whose height is a compile-time constant.
#pragma once

#include <cstdint>

namespace caption::kernels::cpu {

// Replaces std::integral_constant: tier files include nothing inline from std. It depends on Simd
// so that each tier instantiates a type of its own.
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

// Calls work(m, RowCount<Simd, rows>()) for tiles of at most kMaxRows rows that cover `num_rows`.
// Tiles are nearly equal in height, because a tile with one row takes almost as long as a full one.
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
