// kernels/cpu/internal/simd_nibble_panels.h: Tier::panel4a8 for tiers that multiply unsigned by
// signed bytes (simd_gemm.h describes `Simd`).
//
// Layout    a register holds the codes of four columns of kWidth features in its low nibbles, and
//           of kWidth more features in its high nibbles. Codes are multiplied as they are, which
//           takes half the instructions of weights of 8 bits:
//             sum_k a[k] * (step * code[k] + base) = step * sum_k a[k] * code[k] + base * sum_k a[k]
//           A tile's totals are in 32 bits, in memory where registers are too few.
// Numerics  exact: two products are at most 2 * 15 * 128 in magnitude, so that kSafeQuads of their
//           sums fit into 16 bits, and so does the sum of a group's activations, 128 * 128.
#pragma once

#include <cstdint>

#include "kernels/cpu/internal/quad_groups.h"
#include "kernels/cpu/internal/row_tiles.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

inline constexpr std::int64_t kSafeQuads = 8;
static_assert(kSafeQuads * 2 * 15 * 128 <= 32767);
static_assert(kMaxGroupQuads * 4 * 128 <= 32767);

// Multiplies kRows rows by kLoads registers of codes, which begin at byte `first_byte` of a quad.
template <class Simd, int kRows, int kLoads>
void nibble_tile(const Integer4Args& args, std::int64_t m0, std::int64_t first_byte) {
  using Integers = typename Simd::Integers;
  constexpr std::int64_t kQuadBytes = 2 * kPanelColumns;
  constexpr std::int64_t kLoadBytes = std::int64_t{4} * Simd::kWidth;
  constexpr int kSums = 2 * kLoads;  // of low nibbles, of high nibbles, ...
  const std::int64_t low_feature = first_byte / 4;
  const auto feature_of = [&](int j) {
    return low_feature + j / 2 * Simd::kWidth + j % 2 * (kPanelColumns / 2);
  };
  Integers totals[kRows][kSums];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kSums; ++j) totals[r][j] = Simd::zero_integers();
  }
  for_each_quad_group(args, [&](const QuadGroup& group) {
    const std::uint8_t* const steps = args.steps + group.index * 2 * kPanelColumns;
    Integers pairs[kSums];
#pragma GCC unroll 4
    for (int j = 0; j < kSums; ++j) {
      const auto bases = Simd::widen_u8(steps + kPanelColumns + feature_of(j));
      pairs[j] = Simd::twice(Simd::widen_u8(steps + feature_of(j)));
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const auto a_sum =
            Simd::broadcast_word(args.a_sums[(m0 + r) * args.a_sums_stride + group.index]);
        totals[r][j] = Simd::multiply_add_pairs(a_sum, bases, totals[r][j]);
      }
    }
    for (std::int64_t quad = group.first_quad; quad < group.end_quad;) {
      const std::int64_t end =
          quad + kSafeQuads < group.end_quad ? quad + kSafeQuads : group.end_quad;
      Integers sums[kRows][kSums];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int j = 0; j < kSums; ++j) sums[r][j] = Simd::zero_integers();
      }
      for (; quad < end; ++quad) {
        const std::uint8_t* const codes = args.codes + quad * kQuadBytes + first_byte;
        Integers weights[kSums];
#pragma GCC unroll 2
        for (int j = 0; j < kLoads; ++j) {
          const auto both = Simd::load_bits(codes + j * kLoadBytes);
          weights[2 * j] = Simd::low_nibbles(both);
          weights[2 * j + 1] = Simd::high_nibbles(both);
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const auto x = Simd::broadcast_bytes(args.a + (m0 + r) * args.a_stride + 4 * quad);
#pragma GCC unroll 4
          for (int j = 0; j < kSums; ++j) {
            sums[r][j] = Simd::multiply_add_bytes(weights[j], x, sums[r][j]);
          }
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int j = 0; j < kSums; ++j) {
          totals[r][j] = Simd::multiply_add_pairs(sums[r][j], pairs[j], totals[r][j]);
        }
      }
    }
  });
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kSums; ++j) {
      Simd::store_integers(args.c + (m0 + r) * args.c_stride + feature_of(j), totals[r][j]);
    }
  }
}

template <class Simd>
void panel4a8(const Integer4Args& args) {
  constexpr std::int64_t kLoadBytes = std::int64_t{4} * Simd::kWidth;
  constexpr std::int64_t kQuadBytes = 2 * kPanelColumns;
  for_row_tiles<Simd, Simd::kNibbleRows>(args.m, [&](std::int64_t m, auto rows) {
    // A single row reads the codes only once, so it uses whole lines of them.
    constexpr int kLoads = rows() == 1 ? static_cast<int>(kQuadBytes / kLoadBytes) : 1;
    for (std::int64_t byte = 0; byte < kQuadBytes; byte += kLoads * kLoadBytes) {
      nibble_tile<Simd, rows(), kLoads>(args, m, byte);
    }
  });
}

}  // namespace caption::kernels::cpu
