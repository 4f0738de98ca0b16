// kernels/cpu/internal/group_scales.h: scaling of the sums of a group of columns (QuantisedArgs),
// as a template over the register width (simd_gemm.h describes `Simd`).
#pragma once

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

// A type for each element. It depends on Simd so that each tier instantiates types of its own.
template <class Simd, Element kElement>
struct ElementOf {
  static constexpr Element kValue = kElement;
};

// Calls work(ElementOf<Simd, element of the scales>()), so that the loops over groups do not branch
// on it.
template <class Simd, class Work>
void call_with_scales(const QuantisedArgs& args, const Work& work) {
  if (args.scale_element == Element::kF16) return work(ElementOf<Simd, Element::kF16>());
  if (args.scale_element == Element::kBF16) return work(ElementOf<Simd, Element::kBF16>());
  if (args.scale_element == Element::kI8) return work(ElementOf<Simd, Element::kI8>());
  work(ElementOf<Simd, Element::kF32>());
}

// Writes the products of a group's numbers of kI8 and their units (QuantisedArgs).
template <class Simd>
[[gnu::always_inline]] inline void multiply_units(const QuantisedArgs& args, std::int64_t group,
                                                  const void* numbers, const std::uint16_t* units,
                                                  float* to) {
  const std::int64_t unit = group * args.group_pairs / kUnitPairs;
#pragma GCC unroll 4
  for (std::int64_t n = 0; n < kPanelColumns; n += Simd::kWidth) {
    Simd::store(to + n, Simd::multiply(
                            Simd::template load<Element::kI8>(numbers, group * kPanelColumns + n),
                            Simd::template load<Element::kF16>(units, unit * kPanelColumns + n)));
  }
}

template <class Simd, Element kScales, Element kOffsets>
void widen_offsets(const QuantisedArgs& args, std::int64_t group, float* to) {
  for (std::int64_t n = 0; n < kPanelColumns; n += Simd::kWidth) {
    const std::int64_t at = group * kPanelColumns + n;
    auto offsets = Simd::template load<kOffsets>(args.offsets, at);
    if constexpr (kOffsets == Element::kI8) {
      offsets = Simd::multiply(Simd::template load<kScales>(args.scales, at), offsets);
    }
    Simd::store(to + n, offsets);
  }
}

// The element of the scales that scales_of() returns.
template <Element kScales>
inline constexpr Element kReadScales = kScales == Element::kI8 ? Element::kF32 : kScales;

// The scales of a group, in kReadScales<kScales>: in `to` [kPanelColumns] where they have units.
template <class Simd, Element kScales>
[[gnu::always_inline]] inline const void* scales_of(const QuantisedArgs& args, std::int64_t group,
                                                    float* to) {
  if constexpr (kScales == Element::kI8) {
    multiply_units<Simd>(args, group, args.scales, args.scale_units, to);
    return to;
  }
  constexpr std::int64_t kBytes = kScales == Element::kF32 ? 4 : 2;
  return static_cast<const std::uint8_t*>(args.scales) + group * kPanelColumns * kBytes;
}

// The same in f32, for all rows: in `to` where they are held in fewer bits.
template <class Simd, Element kScales>
const void* widened_scales_of(const QuantisedArgs& args, std::int64_t group, float* to) {
  const void* const scales = scales_of<Simd, kScales>(args, group, to);
  if constexpr (kReadScales<kScales> == Element::kF32) return scales;
  for (std::int64_t n = 0; n < kPanelColumns; n += Simd::kWidth) {
    Simd::store(to + n, Simd::template load<kScales>(scales, n));
  }
  return to;
}

// The offsets of a group in f32, for all rows: null where there are none, in `to` [kPanelColumns]
// where they are held in fewer bits.
template <class Simd, Element kScales>
const float* offsets_of(const QuantisedArgs& args, std::int64_t group, float* to) {
  if (args.offsets == nullptr) return nullptr;
  if constexpr (kScales == Element::kI8) {
    multiply_units<Simd>(args, group, args.offsets, args.offset_units, to);
    return to;
  }
  switch (args.offset_element) {
    case Element::kF32: return static_cast<const float*>(args.offsets) + group * kPanelColumns;
    case Element::kBF16: widen_offsets<Simd, kScales, Element::kBF16>(args, group, to); break;
    case Element::kF16: widen_offsets<Simd, kScales, Element::kF16>(args, group, to); break;
    case Element::kI8: widen_offsets<Simd, kScales, Element::kI8>(args, group, to); break;
  }
  return to;
}

// 2 * kWidth features of one row and group.
struct GroupPlace {
  std::int64_t group, m, feature;
};

// A group's scales, in the element that add_group() is told, and offsets, if there are any.
struct GroupNumbers {
  const void* scales;
  const float* offsets;
};

// c (+)= scales * sums (+ offsets * sum of the row's activations).
template <class Simd, Element kScales, bool kHasOffsets>
[[gnu::always_inline]] inline void add_group(const QuantisedArgs& args, GroupPlace place,
                                             typename Simd::Register first,
                                             typename Simd::Register last, GroupNumbers numbers) {
  const auto [group, m, feature] = place;
  float* const c = args.c + m * args.c_stride + feature;
  const auto before_first = group == 0 ? Simd::zero() : Simd::load_floats(c);
  const auto before_last = group == 0 ? Simd::zero() : Simd::load_floats(c + Simd::kWidth);
  auto c_first = Simd::multiply_add(Simd::template load<kScales>(numbers.scales, feature), first,
                                    before_first);
  auto c_last = Simd::multiply_add(
      Simd::template load<kScales>(numbers.scales, feature + Simd::kWidth), last, before_last);
  if constexpr (kHasOffsets) {
    const auto a_sum = Simd::broadcast(args.a_sums[m * args.a_sums_stride + group]);
    c_first = Simd::multiply_add(Simd::load_floats(numbers.offsets + feature), a_sum, c_first);
    c_last = Simd::multiply_add(Simd::load_floats(numbers.offsets + feature + Simd::kWidth), a_sum,
                                c_last);
  }
  Simd::store(c, c_first);
  Simd::store(c + Simd::kWidth, c_last);
}

}  // namespace caption::kernels::cpu
