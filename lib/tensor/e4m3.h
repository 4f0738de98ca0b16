// tensor/e4m3.h: floating-point numbers of 8 bits with 4 of exponent (bias 7) and 3 of fraction,
// "E4M3" of arXiv:2209.05433: magnitudes up to 448, subnormals in steps of 2^-9, no infinities;
// 0x7F and 0xFF are NaN.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace caption {

inline constexpr float kLargestE4M3 = 448;

constexpr bool is_nan_e4m3(std::uint8_t code) { return (code & 0x7Fu) == 0x7Fu; }

// The number of a code, exactly.
inline float from_e4m3(std::uint8_t code) {
  const int exponent = code >> 3 & 15;
  const auto fraction = static_cast<float>(code & 7);
  float number =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8.0F + fraction, exponent - 10);
  if (is_nan_e4m3(code)) number = std::numeric_limits<float>::quiet_NaN();
  return (code & 0x80u) == 0 ? number : -number;
}

// The code of the nearest number, ties to even. Magnitudes beyond the largest, infinity included,
// give the code of the largest with their sign, a NaN gives 0x7F. So does PTX's
// cvt.rn.satfinite.e4m3x2.f32.
inline std::uint8_t to_e4m3(float x) {
  if (std::isnan(x)) return 0x7F;
  const auto sign = static_cast<std::uint8_t>(std::signbit(x) ? 0x80 : 0);
  const float magnitude = std::abs(x);
  if (magnitude >= kLargestE4M3) return static_cast<std::uint8_t>(sign | 0x7E);
  int exponent = -6;  // the least exponent, also that of subnormals
  if (magnitude >= 0x1p-6F) exponent = std::ilogb(magnitude);
  // Codes ascend with their numbers: eighths of 2^exponent count on from the code of 2^exponent,
  // and eight of them, or sixteen, reach the next power of two.
  const auto eighths = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
  return static_cast<std::uint8_t>(sign | ((exponent + 6) * 8 + eighths));
}

}  // namespace caption
