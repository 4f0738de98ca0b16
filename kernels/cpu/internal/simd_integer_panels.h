// kernels/cpu/internal/simd_integer_panels.h: Tier::panel8a8 and panel4a8 for tiers that multiply
// 16-bit integers (simd_gemm.h describes `Simd`).
//
// Layout    a register of 16-bit numbers holds four columns of kWidth / 2 features; one instruction
//           multiplies and adds adjacent numbers, so a feature has two lanes of sums, which are
//           added at the end. Columns are processed in chunks, so that a chunk of the panel and a
//           tile's widened activations stay in the first-level cache while all rows use them.
// Numerics  exact: two products are at most 2 * 255 * 128 in magnitude, far inside 32 bits.
#pragma once

#include <cstdint>

#include "kernels/cpu/internal/quad_groups.h"
#include "kernels/cpu/internal/row_tiles.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

inline constexpr std::int64_t kChunkQuads = 128;
inline constexpr std::int64_t kQuadCodes = 4 * kPanelColumns;

// Multiplies the quads [first, end) of kRows rows by kRegisters * kWidth / 2 features. Every chunk
// but the first is added to c.
template <class Simd, int kRows, int kRegisters>
void integer_tile(const IntegerArgs& args, std::int64_t first, std::int64_t end, std::int64_t m0,
                  std::int64_t feature, const std::int16_t (*a)[4 * kChunkQuads]) {
  typename Simd::Integers sums[kRows][kRegisters];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kRegisters; ++j) sums[r][j] = Simd::zero_integers();
  }
  for (std::int64_t quad = first; quad < end; ++quad) {
    const std::uint8_t* const codes = args.panel + quad * kQuadCodes + 4 * feature;
    typename Simd::Integers weights[kRegisters];
#pragma GCC unroll 8
    for (int j = 0; j < kRegisters; ++j) weights[j] = Simd::widen_u8(codes + j * 2 * Simd::kWidth);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const auto x = Simd::broadcast_four(a[r] + 4 * (quad - first));
#pragma GCC unroll 8
      for (int j = 0; j < kRegisters; ++j) {
        sums[r][j] = Simd::multiply_add_pairs(x, weights[j], sums[r][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    std::int32_t* const c = args.c + (m0 + r) * args.c_stride + feature;
#pragma GCC unroll 4
    for (int j = 0; j < kRegisters; j += 2) {
      Simd::write_pair_sums(sums[r][j], sums[r][j + 1], first > 0, c + j / 2 * Simd::kWidth);
    }
  }
}

template <class Simd>
void panel8a8(const IntegerArgs& args) {
  std::int64_t first = 0;
  do {
    const std::int64_t end =
        first + kChunkQuads < args.num_quads ? first + kChunkQuads : args.num_quads;
    for_row_tiles<Simd, Simd::kIntegerRows>(args.m, [&](std::int64_t m, auto rows) {
      alignas(64) std::int16_t a[rows()][4 * kChunkQuads];
      for (int r = 0; r < rows(); ++r) {
        Simd::widen_i8(args.a + (m + r) * args.a_stride + 4 * first, a[r], 4 * (end - first));
      }
      // A single row reads the panel only once, so it uses as many features at a time as possible.
      constexpr int kAll = 2 * static_cast<int>(kPanelColumns) / Simd::kWidth;
      constexpr int kRegisters = rows() == 1 ? kAll : Simd::kIntegerRegisters;
      for (std::int64_t n = 0; n < kPanelColumns; n += kRegisters * Simd::kWidth / 2) {
        integer_tile<Simd, rows(), kRegisters>(args, first, end, m, n, a);
      }
    });
    first += kChunkQuads;
  } while (first < args.num_quads);
}

template <class Simd>
void panel4a8(const Integer4Args& args) {
  panel4a8_by_chunks(args, panel8a8<Simd>);
}

}  // namespace caption::kernels::cpu
