// kernels/cpu/internal/simd_panels.h: Tier::panel8, panel4 and panel8a8 for the tiers that multiply
// in f32, written once for all widths (see simd_gemm.h on `Simd`).
//
// Layout    a group's codes are expanded to f32 once (16 KiB: they stay in the first-level cache)
//           and all rows pass by; a lane holds one feature's even or odd columns, as the codes lie.
// Numerics  a lane's sum runs over the pairs in their order; even and odd columns meet at the end
//           of a group.
#pragma once

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

inline constexpr std::int64_t kPairCodes = 2 * kPanelColumns;

template <class Simd>
void expand8(const QuantisedArgs& args, std::int64_t pair, float* to) {
  const std::uint8_t* const codes = args.codes + pair * kPairCodes;
  for (int i = 0; i < kPairCodes; i += Simd::kWidth) {
    Simd::store(to + i, Simd::template load<Element::kI8>(codes, i));
  }
}

// In the order of the 8-bit codes, so that both formats end alike.
template <class Simd>
void expand4(const QuantisedArgs& args, const float* codebook, std::int64_t pair, float* to) {
  const std::uint8_t* const codes = args.codes + pair * kPanelColumns;
  for (int i = 0; i < kPanelColumns; i += 8) {
    Simd::lookup_halves(codebook, codes + i, to + i, to + kPanelColumns + i);
  }
}

// sums[row][i] over the group's pairs for lane i of a pair's codes.
template <class Simd, int kRows>
void sum_group(const QuantisedArgs& args, std::int64_t m0, std::int64_t first, std::int64_t end,
               const float* expanded, float (*sums)[kPairCodes]) {
  constexpr int kRegisters = static_cast<int>(kPairCodes) / Simd::kWidth;
  typename Simd::Register totals[kRows][kRegisters];
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kRegisters; ++j) totals[r][j] = Simd::zero();
  }
  for (std::int64_t pair = first; pair < end; ++pair) {
    const float* const from = expanded + (pair - first) * kPairCodes;
    for (int r = 0; r < kRows; ++r) {
      const auto two = Simd::broadcast_bf16_pair(args.a + (m0 + r) * args.a_stride + 2 * pair);
      for (int j = 0; j < kRegisters; ++j) {
        totals[r][j] =
            Simd::multiply_add(two, Simd::load_floats(from + j * Simd::kWidth), totals[r][j]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kRegisters; ++j) {
      Simd::store(sums[r] + j * Simd::kWidth, totals[r][j]);
    }
  }
}

// c (+)= scale * sum (+ offset * a_sum), for one row and group.
template <class Simd>
void add_group(const QuantisedArgs& args, std::int64_t m, std::int64_t group, const float* sums) {
  float* const c = args.c + m * args.c_stride;
  const float* const scales = args.scales + group * kPanelColumns;
  for (std::int64_t n = 0; n < kPanelColumns; ++n) {
    const float sum = sums[panel8_position(n, 0)] + sums[panel8_position(n, 1)];
    c[n] = (group == 0 ? 0.0f : c[n]) + scales[n] * sum;
  }
  if (args.offsets == nullptr) return;
  const float* const offsets = args.offsets + group * kPanelColumns;
  const float a_sum = args.a_sums[m * args.a_sums_stride + group];
  for (std::int64_t n = 0; n < kPanelColumns; ++n) c[n] += offsets[n] * a_sum;
}

template <class Simd, class Expand>
void quantised_panel(const QuantisedArgs& args, const Expand& expand) {
  constexpr int kRows = Simd::kWidth / 4;  // rows whose sums fit the registers
  alignas(64) float expanded[kMaxGroupPairs * kPairCodes];
  alignas(64) float sums[kRows][kPairCodes];
  std::int64_t group = 0;
  for (std::int64_t first = 0; first < args.num_pairs; first += args.group_pairs, ++group) {
    const std::int64_t end =
        first + args.group_pairs < args.num_pairs ? first + args.group_pairs : args.num_pairs;
    for (std::int64_t pair = first; pair < end; ++pair) {
      expand(pair, expanded + (pair - first) * kPairCodes);
    }
    std::int64_t m = 0;
    for (; m + kRows <= args.m; m += kRows) {
      sum_group<Simd, kRows>(args, m, first, end, expanded, sums);
      for (int r = 0; r < kRows; ++r) add_group<Simd>(args, m + r, group, sums[r]);
    }
    for (; m < args.m; ++m) {
      sum_group<Simd, 1>(args, m, first, end, expanded, sums);
      add_group<Simd>(args, m, group, sums[0]);
    }
  }
}

template <class Simd>
void panel8(const QuantisedArgs& args) {
  quantised_panel<Simd>(args, [&](std::int64_t pair, float* to) { expand8<Simd>(args, pair, to); });
}

template <class Simd>
void panel4(const QuantisedArgs& args) {
  float codebook[16];
  Simd::store_widened(args.codebook, codebook);
  quantised_panel<Simd>(
      args, [&](std::int64_t pair, float* to) { expand4<Simd>(args, codebook, pair, to); });
}

// Plain loops in the order of the lanes, which the compiler turns into the tier's instructions.
template <class Simd>
void panel8a8(const IntegerArgs& args) {
  for (std::int64_t m = 0; m < args.m; ++m) {
    std::int32_t sums[4 * kPanelColumns] = {};
    for (std::int64_t quad = 0; quad < args.num_quads; ++quad) {
      const std::int8_t* const a = args.a + m * args.a_stride + 4 * quad;
      const std::uint8_t* const b = args.panel + quad * 4 * kPanelColumns;
      for (std::int64_t i = 0; i < 4 * kPanelColumns; ++i) sums[i] += a[i % 4] * b[i];
    }
    std::int32_t* const c = args.c + m * args.c_stride;
    for (std::int64_t n = 0; n < kPanelColumns; ++n) {
      c[n] = sums[4 * n] + sums[4 * n + 1] + sums[4 * n + 2] + sums[4 * n + 3];
    }
  }
}

}  // namespace caption::kernels::cpu
