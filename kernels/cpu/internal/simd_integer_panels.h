// kernels/cpu/internal/simd_integer_panels.h: Tier::panel8a8 for the tiers that multiply integers
// of 16 bits (see simd_gemm.h on `Simd`).
//
// Layout    a register of 16-bit numbers holds four columns of kWidth / 2 features; one instruction
//           multiplies and adds neighbours, so a feature has two lanes of sums, which meet at the
//           end. Columns go by in chunks: a chunk of the panel stays in the first-level cache while
//           all rows pass by, and so do a tile's activations, widened once.
// Numerics  exact: two products are at most 2 * 255 * 128 in magnitude, far inside 32 bits.
#pragma once

#include <cstdint>

#include "kernels/cpu/internal/row_tiles.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

inline constexpr std::int64_t kChunkQuads = 128;
inline constexpr std::int64_t kQuadCodes = 4 * kPanelColumns;

// Quads [first, end) of kRows rows by 2 * kWidth features, added to c unless it is the first chunk.
template <class Simd, int kRows>
void integer_tile(const IntegerArgs& args, std::int64_t first, std::int64_t end, std::int64_t m0,
                  std::int64_t feature, const std::int16_t (*a)[4 * kChunkQuads]) {
  constexpr int kRegisters = 4;
  constexpr int kRegisterCodes = 2 * Simd::kWidth;
  typename Simd::Integers sums[kRows][kRegisters];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kRegisters; ++j) sums[r][j] = Simd::zero_integers();
  }
  for (std::int64_t quad = first; quad < end; ++quad) {
    const std::uint8_t* const codes = args.panel + quad * kQuadCodes + 4 * feature;
    // Two registers of weights at a time leave room for 12 sums among 16 registers.
#pragma GCC unroll 2
    for (int j = 0; j < kRegisters; j += 2) {
      const auto w0 = Simd::widen_u8(codes + j * kRegisterCodes);
      const auto w1 = Simd::widen_u8(codes + (j + 1) * kRegisterCodes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const auto x = Simd::broadcast_four(a[r] + 4 * (quad - first));
        sums[r][j] = Simd::multiply_add_pairs(x, w0, sums[r][j]);
        sums[r][j + 1] = Simd::multiply_add_pairs(x, w1, sums[r][j + 1]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    std::int32_t* const c = args.c + (m0 + r) * args.c_stride + feature;
    Simd::write_pair_sums(sums[r][0], sums[r][1], first > 0, c);
    Simd::write_pair_sums(sums[r][2], sums[r][3], first > 0, c + Simd::kWidth);
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
      for (std::int64_t n = 0; n < kPanelColumns; n += 2 * Simd::kWidth) {
        integer_tile<Simd, rows()>(args, first, end, m, n, a);
      }
    });
    first += kChunkQuads;
  } while (first < args.num_quads);
}

}  // namespace caption::kernels::cpu
