// kernels/cpu/internal/simd_panels.h: Tier::panel8 and panel4 for the tiers that multiply in f32,
// written once for all widths (see simd_gemm.h on `Simd`).
//
// Layout    with one row, codes go from memory to the products in registers; with more, a group's
//           codes are expanded to f32 once (16 KiB: they stay in the first-level cache) and all
//           rows pass by. A tile's share of the activations is widened once for all features.
// Numerics  a lane sums one feature's even or odd columns in their order; both meet at the end of a
//           group. Neither the tile's height nor where the codes come from changes a bit.
#pragma once

#include <cstdint>

#include "kernels/cpu/internal/row_tiles.h"
#include "kernels/cpu/internal/simd_codes.h"
#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

struct PanelGroup {
  std::int64_t index, first_pair, end_pair;
};

// c (+)= scale * sum (+ offset * a_sum), for kWidth features of one row and group.
template <class Simd>
void add_group(const QuantisedArgs& args, const PanelGroup& group, std::int64_t m,
               std::int64_t feature, typename Simd::Register sum) {
  float* const c = args.c + m * args.c_stride + feature;
  const std::int64_t at = group.index * kPanelColumns + feature;
  const auto before = group.index == 0 ? Simd::zero() : Simd::load_floats(c);
  auto result = Simd::multiply_add(Simd::load_floats(args.scales + at), sum, before);
  if (args.offsets != nullptr) {
    const auto a_sum = Simd::broadcast(args.a_sums[m * args.a_sums_stride + group.index]);
    result = Simd::multiply_add(Simd::load_floats(args.offsets + at), a_sum, result);
  }
  Simd::store(c, result);
}

// kRows rows by kSlices slices from `first_slice` on. A column's weights meet all rows before the
// next column's are touched: 12 sums, 2 weights and an activation fit 16 registers.
template <class Simd, int kRows, int kSlices, class Source>
void group_tile(const QuantisedArgs& args, const PanelGroup& group, std::int64_t m0,
                int first_slice, const float (*a)[2 * kMaxGroupPairs], const Source& source) {
  typename Simd::Register even[kRows][2 * kSlices];
  typename Simd::Register odd[kRows][2 * kSlices];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < 2 * kSlices; ++j) even[r][j] = odd[r][j] = Simd::zero();
  }
  for (std::int64_t pair = group.first_pair; pair < group.end_pair; ++pair) {
    const std::int64_t column = 2 * (pair - group.first_pair);
#pragma GCC unroll 2
    for (int s = 0; s < kSlices; ++s) {
      const PanelSlice<Simd> weights = source.load(pair, first_slice + s);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const auto x = Simd::broadcast(a[r][column]);
        even[r][2 * s] = Simd::multiply_add(x, weights.even[0], even[r][2 * s]);
        even[r][2 * s + 1] = Simd::multiply_add(x, weights.even[1], even[r][2 * s + 1]);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const auto x = Simd::broadcast(a[r][column + 1]);
        odd[r][2 * s] = Simd::multiply_add(x, weights.odd[0], odd[r][2 * s]);
        odd[r][2 * s + 1] = Simd::multiply_add(x, weights.odd[1], odd[r][2 * s + 1]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < 2 * kSlices; ++j) {
      const std::int64_t feature = (2 * first_slice + j) * std::int64_t{Simd::kWidth};
      add_group<Simd>(args, group, m0 + r, feature, Simd::add(even[r][j], odd[r][j]));
    }
  }
}

// The group's activations of kRows rows as f32.
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

// Some rows by the whole panel. One row's tile is as wide as the panel: its sums must be many, to
// hide how long each addition takes.
template <class Simd, int kRows, class Source>
void group_rows(const QuantisedArgs& args, const PanelGroup& group, std::int64_t m0,
                const Source& source) {
  constexpr int kSlices = kRows == 1 ? kNumSlices<Simd> : 1;
  alignas(64) float a[kRows][2 * kMaxGroupPairs];
  widen_activations<Simd, kRows>(args, group, m0, a);
  for (int slice = 0; slice < kNumSlices<Simd>; slice += kSlices) {
    group_tile<Simd, kRows, kSlices>(args, group, m0, slice, a, source);
  }
}

template <class Simd, class Codes>
void quantised_panel(const QuantisedArgs& args) {
  const Codes codes(args);
  Expanded<Simd> expanded;
  PanelGroup group{};
  for (; group.first_pair < args.num_pairs; group.first_pair += args.group_pairs, ++group.index) {
    const std::int64_t end = group.first_pair + args.group_pairs;
    group.end_pair = end < args.num_pairs ? end : args.num_pairs;
    if (args.m == 1) {
      group_rows<Simd, 1>(args, group, 0, codes);
      continue;
    }
    expanded.fill(codes, group.first_pair, group.end_pair);
    for_row_tiles<Simd>(args.m, [&](std::int64_t m, auto rows) {
      group_rows<Simd, rows()>(args, group, m, expanded);
    });
  }
}

template <class Simd>
void panel8(const QuantisedArgs& args) {
  quantised_panel<Simd, Codes8<Simd>>(args);
}

template <class Simd>
void panel4(const QuantisedArgs& args) {
  quantised_panel<Simd, Codes4<Simd>>(args);
}

}  // namespace caption::kernels::cpu
