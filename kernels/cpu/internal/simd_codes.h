// kernels/cpu/internal/simd_codes.h: panels of quantised weights as registers of f32, written once
// for all widths (see simd_gemm.h on `Simd`).
//
// A slice is 2 * Simd::kWidth features of a pair of columns: four registers, the even column's two
// and the odd column's. A source of slices is a panel's codes of 8 or 4 bits, or a group of them
// expanded before.
#pragma once

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

inline constexpr std::int64_t kPairCodes = 2 * kPanelColumns;

template <class Simd>
struct PanelSlice {
  typename Simd::Register even[2], odd[2];
};
template <class Simd>
inline constexpr int kNumSlices = static_cast<int>(kPanelColumns) / (2 * Simd::kWidth);

template <class Simd>
struct Codes8 {
  explicit Codes8(const QuantisedArgs& args) : codes(args.codes) {}
  PanelSlice<Simd> load(std::int64_t pair, int slice) const {
    const std::uint8_t* const from = codes + pair * kPairCodes + slice * 4 * Simd::kWidth;
    PanelSlice<Simd> result;
    Simd::widen_i8_pairs(from, result.even[0], result.odd[0]);
    Simd::widen_i8_pairs(from + 2 * Simd::kWidth, result.even[1], result.odd[1]);
    return result;
  }
  const std::uint8_t* codes;
};

template <class Simd>
struct Codes4 {
  explicit Codes4(const QuantisedArgs& args) : codes(args.codes), codebook(args.codebook) {}
  PanelSlice<Simd> load(std::int64_t pair, int slice) const {
    PanelSlice<Simd> result;
    codebook.look_up(codes + pair * kPanelColumns, slice, result.even, result.odd);
    return result;
  }
  const std::uint8_t* codes;
  typename Simd::Codebook codebook;
};

// Slice after slice, so that a tile reads its slice's registers one behind another.
template <class Simd>
struct Expanded {
  static constexpr std::int64_t kSliceFloats = std::int64_t{4} * Simd::kWidth;

  template <class Codes>
  void fill(const Codes& codes, std::int64_t first, std::int64_t end) {
    first_pair = first;
    for (int slice = 0; slice < kNumSlices<Simd>; ++slice) {
      for (std::int64_t pair = first; pair < end; ++pair) {
        const PanelSlice<Simd> from = codes.load(pair, slice);
        float* const to = floats + at(pair, slice);
        Simd::store(to, from.even[0]);
        Simd::store(to + Simd::kWidth, from.even[1]);
        Simd::store(to + 2 * Simd::kWidth, from.odd[0]);
        Simd::store(to + 3 * Simd::kWidth, from.odd[1]);
      }
    }
  }
  PanelSlice<Simd> load(std::int64_t pair, int slice) const {
    const float* const from = floats + at(pair, slice);
    return {.even = {Simd::load_floats(from), Simd::load_floats(from + Simd::kWidth)},
            .odd = {Simd::load_floats(from + 2 * Simd::kWidth),
                    Simd::load_floats(from + 3 * Simd::kWidth)}};
  }
  std::int64_t at(std::int64_t pair, int slice) const {
    return (slice * kMaxGroupPairs + pair - first_pair) * kSliceFloats;
  }
  std::int64_t first_pair = 0;
  alignas(64) float floats[kMaxGroupPairs * kPairCodes];
};

}  // namespace caption::kernels::cpu
