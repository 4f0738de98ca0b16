// kernels/cpu/internal/simd_panels.h: Tier::panel8, panel_e4m3 and panel4 for tiers that multiply
// in f32, as templates over the register width (simd_gemm.h describes `Simd`).
//
// Layout    with one row, codes are widened in registers and multiplied directly; with more rows, a
//           group's codes are expanded to f32 once (16 KiB: they stay in the first-level cache) and
//           used for all rows. A tile's activations of the group are widened once for all features.
// Numerics  a lane sums one feature's columns of a group in their order. Neither the tile's height
//           nor the expansion changes a bit of the result.
#pragma once

#include <cstdint>

#include "kernels/cpu/internal/group_scales.h"
#include "kernels/cpu/internal/row_tiles.h"
#include "kernels/cpu/internal/simd_codes.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

struct PanelGroup {
  std::int64_t index, first_pair, end_pair;
};

// c (+)= scales * sums (+ offsets * sum of the row's activations). `numbers` are in f32.
template <class Simd>
void add_row(const QuantisedArgs& args, const PanelGroup& group, std::int64_t m,
             const PanelSums<Simd>& sums, GroupNumbers numbers) {
  const auto* const scales = static_cast<const float*>(numbers.scales);
#pragma GCC unroll 4
  for (int j = 0; j < kPanelRegisters<Simd>; ++j) {
    const std::int64_t feature = j * std::int64_t{Simd::kWidth};
    float* const c = args.c + m * args.c_stride + feature;
    const auto before = group.index == 0 ? Simd::zero() : Simd::load_floats(c);
    auto result = Simd::multiply_add(Simd::load_floats(scales + feature), sums[j], before);
    if (numbers.offsets != nullptr) {
      const auto a_sum = Simd::broadcast(args.a_sums[m * args.a_sums_stride + group.index]);
      result = Simd::multiply_add(Simd::load_floats(numbers.offsets + feature), a_sum, result);
    }
    Simd::store(c, result);
  }
}

// Multiplies a single row by the codes of a group.
template <class Simd, class Codes>
void group_row(const QuantisedArgs& args, const PanelGroup& group,
               const float (*a)[2 * kMaxGroupPairs], const Codes& codes, GroupNumbers numbers) {
  PanelSums<Simd> sums;
#pragma GCC unroll 4
  for (int j = 0; j < kPanelRegisters<Simd>; ++j) sums[j] = Simd::zero();
  for (std::int64_t pair = group.first_pair; pair < group.end_pair; ++pair) {
    codes.add(pair, a[0] + 2 * (pair - group.first_pair), sums);
  }
  Codes::settle(sums);
  add_row<Simd>(args, group, 0, sums, numbers);
}

// A group's codes and numbers in f32.
struct ExpandedGroup {
  const float* codes;  // [columns, kPanelColumns]
  GroupNumbers numbers;
};

// Multiplies kRows rows by an expanded group. With 16 registers and kRows = 3, 12 hold sums, 3
// activations and 1 weights.
template <class Simd, int kRows>
void group_tile(const QuantisedArgs& args, const PanelGroup& group, std::int64_t m0,
                const float (*a)[2 * kMaxGroupPairs], const ExpandedGroup& expanded) {
  const GroupNumbers numbers = expanded.numbers;
  using Register = typename Simd::Register;
  PanelSums<Simd> sums[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kPanelRegisters<Simd>; ++j) sums[r][j] = Simd::zero();
  }
  const std::int64_t num_columns = 2 * (group.end_pair - group.first_pair);
  for (std::int64_t k = 0; k < num_columns; ++k) {
    Register x[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) x[r] = Simd::broadcast(a[r][k]);
#pragma GCC unroll 4
    for (int j = 0; j < kPanelRegisters<Simd>; ++j) {
      const Register w = Simd::in_register(
          Simd::load_floats(expanded.codes + k * kPanelColumns + j * Simd::kWidth));
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[r][j] = Simd::multiply_add(x[r], w, sums[r][j]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) add_row<Simd>(args, group, m0 + r, sums[r], numbers);
}

// Writes the group's activations of kRows rows as f32.
template <class Simd, int kRows>
void widen_activations(const QuantisedArgs& args, const PanelGroup& group, std::int64_t m0,
                       float (*a)[2 * kMaxGroupPairs]) {
  const std::int64_t count = 2 * (group.end_pair - group.first_pair);
  for (int r = 0; r < kRows; ++r) {
    const std::uint16_t* const from = args.a + (m0 + r) * args.a_stride + 2 * group.first_pair;
    std::int64_t i = 0;
    for (; i + Simd::kWidth <= count; i += Simd::kWidth) {
      Simd::store(a[r] + i, Simd::template load<Element::kBF16>(from, i));
    }
    if (i == count) continue;
    const int rest = static_cast<int>(count - i);
    Simd::store(a[r] + i, Simd::template load_part<Element::kBF16>(from, i, rest));
  }
}

// Calls work(group, its scales and offsets in f32) for the groups of columns in their order.
template <class Simd, Element kScales, class Work>
void for_each_group(const QuantisedArgs& args, const Work& work) {
  alignas(64) float scales[kPanelColumns];
  alignas(64) float offsets[kPanelColumns];
  PanelGroup group{};
  for (; group.first_pair < args.num_pairs; group.first_pair += args.group_pairs, ++group.index) {
    const std::int64_t end = group.first_pair + args.group_pairs;
    group.end_pair = end < args.num_pairs ? end : args.num_pairs;
    work(group, GroupNumbers{widened_scales_of<Simd, kScales>(args, group.index, scales),
                             offsets_of<Simd, kScales>(args, group.index, offsets)});
  }
}

template <class Simd, Element kScales, class Codes>
void quantised_row(const QuantisedArgs& args) {
  const Codes codes(args);
  for_each_group<Simd, kScales>(args, [&](const PanelGroup& group, GroupNumbers numbers) {
    alignas(64) float a[1][2 * kMaxGroupPairs];
    widen_activations<Simd, 1>(args, group, 0, a);
    group_row<Simd>(args, group, a, codes, numbers);
  });
}

template <class Simd, Element kScales, class Codes>
void quantised_rows(const QuantisedArgs& args) {
  const Codes codes(args);
  alignas(64) float expanded[kMaxGroupPairs * kPairCodes];
  for_each_group<Simd, kScales>(args, [&](const PanelGroup& group, GroupNumbers numbers) {
    expand<Simd>(codes, group.first_pair, group.end_pair, expanded);
    for_row_tiles<Simd, Simd::kPanelRows>(args.m, [&](std::int64_t m, auto rows) {
      alignas(64) float a[rows()][2 * kMaxGroupPairs];
      widen_activations<Simd, rows()>(args, group, m, a);
      group_tile<Simd, rows()>(args, group, m, a, {expanded, numbers});
    });
  });
}

template <class Simd, class Codes>
void panel_of_codes(const QuantisedArgs& args) {
  call_with_scales<Simd>(args, [&](auto scales) {
    constexpr Element kScales = decltype(scales)::kValue;
    if (args.m > 1) return quantised_rows<Simd, kScales, Codes>(args);
    quantised_row<Simd, kScales, PanelRow<Simd, Codes>>(args);
  });
}

template <class Simd>
void panel8(const QuantisedArgs& args) {
  panel_of_codes<Simd, PanelCodes8<Simd>>(args);
}

template <class Simd>
void panel_e4m3(const QuantisedArgs& args) {
  panel_of_codes<Simd, PanelCodesE4M3<Simd>>(args);
}

template <class Simd>
void panel4(const QuantisedArgs& args) {
  call_with_scales<Simd>(args, [&](auto scales) {
    constexpr Element kScales = decltype(scales)::kValue;
    if (args.m > 1) return quantised_rows<Simd, kScales, PanelCodes4<Simd>>(args);
    if constexpr (requires { typename Simd::template WordCodes<true>; }) {
      if (args.first_code == -8) {
        return quantised_row<Simd, kScales, PanelRowOfIntegers4<Simd, true>>(args);
      }
      if (args.first_code == 0) {
        return quantised_row<Simd, kScales, PanelRowOfIntegers4<Simd, false>>(args);
      }
    }
    quantised_row<Simd, kScales, PanelRow<Simd, PanelCodes4<Simd>>>(args);
  });
}

}  // namespace caption::kernels::cpu
