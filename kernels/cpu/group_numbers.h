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

// Where the unit of number `i` [groups, kPanelColumns] of a panel is, whose groups have so many
// pairs of columns.
inline std::int64_t unit_position(std::int64_t i, std::int64_t group_pairs) {
  const std::int64_t group = i / kPanelColumns;
  return group * group_pairs / kUnitPairs * kPanelColumns + i % kPanelColumns;
}

// The next functions return number `i` [groups, kPanelColumns] of a panel in f32.
inline float scale_at(const QuantisedArgs& args, std::int64_t i) {
  const float number = number_at(args.scales, args.scale_element, i);
  if (args.scale_element != Element::kI8) return number;
  return to_float(F16{args.scale_units[unit_position(i, args.group_pairs)]}) * number;
}

inline float offset_at(const QuantisedArgs& args, std::int64_t i) {
  const float number = number_at(args.offsets, args.offset_element, i);
  if (args.offset_element != Element::kI8) return number;
  if (args.scale_element != Element::kI8) return scale_at(args, i) * number;
  return to_float(F16{args.offset_units[unit_position(i, args.group_pairs)]}) * number;
}

}  // namespace caption::kernels::cpu
