// kernels/cpu/internal/simd_quad_panels.h: Tier::panel8a8 for instructions that multiply four bytes
// by four and add the products to a lane of 32 bits (simd_gemm.h describes `Simd`).
//
// Layout    a register holds the weights of four columns of kWidth features.
// Numerics  exact: the instruction widens before it adds.
#pragma once

#include <cstdint>

#include "kernels/cpu/internal/fetch_ahead.h"
#include "kernels/cpu/internal/row_tiles.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

// Multiplies kRows rows, from row m0 on, by kRegisters * kWidth features.
template <class Simd, int kRows, int kRegisters>
void quad_tile(const IntegerArgs& args, std::int64_t m0, std::int64_t feature) {
  constexpr std::int64_t kQuadBytes = 4 * kPanelColumns;
  typename Simd::Integers sums[kRows][kRegisters];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kRegisters; ++j) sums[r][j] = Simd::zero_integers();
  }
  for (std::int64_t quad = 0; quad < args.num_quads; ++quad) {
    const std::uint8_t* const from = args.panel + quad * kQuadBytes + 4 * feature;
    if (m0 == 0 && feature == 0) {
      for (std::int64_t line = 0; line < kQuadBytes; line += 64) fetch_ahead(from + line);
    }
    typename Simd::Integers weights[kRegisters];
#pragma GCC unroll 4
    for (int j = 0; j < kRegisters; ++j) weights[j] = Simd::load_bits(from + j * 4 * Simd::kWidth);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto x = Simd::broadcast_bytes(args.a + (m0 + r) * args.a_stride + 4 * quad);
#pragma GCC unroll 4
      for (int j = 0; j < kRegisters; ++j) {
        sums[r][j] = Simd::multiply_add_bytes(weights[j], x, sums[r][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    std::int32_t* const c = args.c + (m0 + r) * args.c_stride + feature;
#pragma GCC unroll 4
    for (int j = 0; j < kRegisters; ++j) Simd::store_integers(c + j * Simd::kWidth, sums[r][j]);
  }
}

template <class Simd>
void panel8a8_by_quads(const IntegerArgs& args) {
  for_row_tiles<Simd, Simd::kQuadRows>(args.m, [&](std::int64_t m, auto rows) {
    // A single row reads the panel only once, so it uses as many features at a time as possible.
    constexpr int kAll = static_cast<int>(kPanelColumns) / Simd::kWidth;
    constexpr int kRegisters = rows() == 1 ? kAll : 2;
    for (std::int64_t n = 0; n < kPanelColumns; n += std::int64_t{kRegisters} * Simd::kWidth) {
      quad_tile<Simd, rows(), kRegisters>(args, m, n);
    }
  });
}

}  // namespace caption::kernels::cpu
