// kernels/cpu/internal/group_scales.h: scaling of the sums of a group of columns (QuantisedArgs),
// as a template over the register width (simd_gemm.h describes `Simd`).
#pragma once

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

// Widens kWidth numbers to f32.
template <class Simd>
typename Simd::Register load_numbers(const void* numbers, Element element, std::int64_t at) {
  switch (element) {
    case Element::kF32: break;
    case Element::kBF16: return Simd::template load<Element::kBF16>(numbers, at);
    case Element::kF16: return Simd::template load<Element::kF16>(numbers, at);
    case Element::kI8: return Simd::template load<Element::kI8>(numbers, at);
  }
  return Simd::template load<Element::kF32>(numbers, at);
}

// The scales and offsets of kWidth features and one group, in registers for all rows.
template <class Simd>
class GroupScales {
 public:
  GroupScales(const QuantisedArgs& args, std::int64_t group, std::int64_t feature)
      : args_(args), group_(group), feature_(feature) {
    const std::int64_t at = group * kPanelColumns + feature;
    scales_ = load_numbers<Simd>(args.scales, args.scale_element, at);
    if (args.offsets == nullptr) return;
    offsets_ = load_numbers<Simd>(args.offsets, args.offset_element, at);
    if (args.offset_element == Element::kI8) offsets_ = Simd::multiply(scales_, offsets_);
  }

  // c (+)= scales * sums (+ offsets * sum of the row's activations), for row m.
  void add(std::int64_t m, typename Simd::Register sums) const {
    float* const c = args_.c + m * args_.c_stride + feature_;
    const auto before = group_ == 0 ? Simd::zero() : Simd::load_floats(c);
    auto result = Simd::multiply_add(scales_, sums, before);
    if (args_.offsets != nullptr) {
      const auto a_sum = Simd::broadcast(args_.a_sums[m * args_.a_sums_stride + group_]);
      result = Simd::multiply_add(offsets_, a_sum, result);
    }
    Simd::store(c, result);
  }

 private:
  const QuantisedArgs& args_;
  std::int64_t group_;
  std::int64_t feature_;
  typename Simd::Register scales_;
  typename Simd::Register offsets_ = Simd::zero();
};

}  // namespace caption::kernels::cpu
