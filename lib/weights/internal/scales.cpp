#include "weights/internal/scales.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/json.h"
#include "weights/internal/code_rows.h"

namespace caption::weights {
namespace {

using FourHalves = std::uint16_t __attribute__((vector_size(8)));
using FourFloats = float __attribute__((vector_size(16)));

constexpr std::int64_t kLanes = 4;

template <class Vector, class Element>
Vector load(const Element* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

// Adds 2^112 to the exponent of a half that stands in the place of an f32: normal and subnormal
// numbers are exact. What was not finite is not less than 2^16 in magnitude.
FourFloats widen_f16(FourWords halves) {
  const auto magnitude = reinterpret_cast<FourFloats>((halves & 0x7FFF) << 13) * 0x1p112F;
  return reinterpret_cast<FourFloats>(reinterpret_cast<FourWords>(magnitude) | (halves & 0x8000)
                                                                                   << 16);
}

FourFloats widen_bf16(FourWords halves) { return reinterpret_cast<FourFloats>(halves << 16); }

// Widens as many numbers as fill vectors; returns how many. Sets bits of `not_finite` where one has
// all bits of `exponent`.
template <auto kWiden>
std::int64_t widen(const std::uint16_t* from, std::int64_t count, std::uint32_t exponent,
                   FourWords& not_finite, float* to) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto halves = __builtin_convertvector(load<FourHalves>(from + i), FourWords);
    not_finite |= reinterpret_cast<FourWords>((halves & exponent) == exponent);
    const FourFloats numbers = kWiden(halves);
    std::memcpy(to + i, &numbers, sizeof(numbers));
  }
  return i;
}

}  // namespace

void read_finite(const Part& part, std::int64_t first, std::int64_t count, float* to) {
  FourWords not_finite{};
  std::int64_t done = 0;
  switch (part.tensor->dtype.value_or(DType::kF32)) {
    case DType::kBF16:
      done = widen<widen_bf16>(part.as<std::uint16_t>() + first, count, 0x7F80, not_finite, to);
      break;
    case DType::kF16:
      done = widen<widen_f16>(part.as<std::uint16_t>() + first, count, 0x7C00, not_finite, to);
      break;
    default: {
      const float* const from = part.as<float>() + first;
      for (; done + kLanes <= count; done += kLanes) {
        const auto numbers = load<FourWords>(from + done);
        not_finite |= reinterpret_cast<FourWords>((numbers & 0x7F800000) == 0x7F800000);
        std::memcpy(to + done, &numbers, sizeof(numbers));
      }
    }
  }
  for (; done < count; ++done) to[done] = finite_at(part, first + done);
  if ((not_finite[0] | not_finite[1] | not_finite[2] | not_finite[3]) != 0) {
    fail_part(part, "holds a number that is not finite");
  }
}

void require_magnitudes(const Part& part, std::int64_t first, std::int64_t count,
                        const float* numbers) {
  std::int32_t num_negative = 0;  // counted without branches, in vectors
  for (std::int64_t i = 0; i < count; ++i) num_negative += numbers[i] < 0 ? 1 : 0;
  if (num_negative == 0) return;
  const float* const found =
      std::find_if(numbers, numbers + count, [](float number) { return number < 0; });
  fail_part(part, "holds " + json_number(*found) + " (element " +
                      std::to_string(first + (found - numbers)) +
                      "), where the largest magnitude of weights, which is not negative, was "
                      "expected");
}

}  // namespace caption::weights
