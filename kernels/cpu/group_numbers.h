// kernels/cpu/group_numbers.h: scales and offsets of groups of columns (QuantisedArgs), one number
// at a time.
#pragma once

#include <cstdint>

#include "kernels/cpu/tier.h"
#include "tensor/dtype.h"

namespace caption::kernels::cpu {

inline float number_at(const void* numbers, Element element, std::int64_t i) {
  switch (element) {
    case Element::kF32: break;
    case Element::kBF16: return to_float(static_cast<const BF16*>(numbers)[i]);
    case Element::kF16: return to_float(static_cast<const F16*>(numbers)[i]);
    case Element::kI8: return to_float(static_cast<const std::int8_t*>(numbers)[i]);
  }
  return static_cast<const float*>(numbers)[i];
}

// `scale` is the scale of the same feature and group.
inline float offset_at(const void* offsets, Element element, std::int64_t i, float scale) {
  const float number = number_at(offsets, element, i);
  return element == Element::kI8 ? scale * number : number;
}

}  // namespace caption::kernels::cpu
