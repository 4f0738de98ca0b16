// kernels/cuda/math.cuh: functions of numbers, made of the exactly rounded operations of
// primitives.cuh alone, so that a GPU and the emulator give the same bits.
#pragma once

#include <cstdint>

#include "kernels/cuda/primitives.cuh"

namespace caption::kernels::cuda {

// e^x, within one unit in the last place; 0 below the smallest subnormal, infinity above the
// largest number. e^x = 2^n e^r with n = round(x / ln 2), and the Taylor polynomial of e^r to r^7,
// whose rest is below 2^-27 for |r| <= ln(2) / 2.
CAPTION_DEVICE float exponential(float x) {
  constexpr float kRounding = 0x1.8p23F;  // adding it rounds |x| < 2^22 to an integer
  constexpr std::uint32_t kRoundingBits = 0x4B400000;
  // ln 2 in two parts: the product of the first with |n| < 2^8 is exact.
  constexpr float kLn2High = 0x1.62e4p-1F;
  constexpr float kLn2Low = 0x1.7f7d1cp-20F;
  x = x < -104.0F ? -104.0F : x;
  x = x > 89.0F ? 89.0F : x;
  const float shifted = fused(x, 0x1.715476p0F, kRounding);  // 1 / ln 2
  const float n = shifted - kRounding;
  const float r = fused(n, -kLn2Low, fused(n, -kLn2High, x));
  float p = 1.0F / 5040;
  p = fused(p, r, 1.0F / 720);
  p = fused(p, r, 1.0F / 120);
  p = fused(p, r, 1.0F / 24);
  p = fused(p, r, 1.0F / 6);
  p = fused(p, r, 0.5F);
  p = fused(p, r, 1.0F);
  p = fused(p, r, 1.0F);
  // 2^n as two factors, both of them normal numbers.
  const auto exponent = static_cast<std::int32_t>(bits_of_float(shifted) - kRoundingBits);
  const std::int32_t half = exponent >> 1;
  const float first = float_of_bits(static_cast<std::uint32_t>(127 + half) << 23);
  const float second = float_of_bits(static_cast<std::uint32_t>(127 + exponent - half) << 23);
  return p * first * second;
}

// 2^x for x <= 0, within 2^-18 of it; 1 of 0, and 0 below 2^-126. 2^x = 2^n 2^r with n = round(x),
// and a polynomial of 2^r whose greatest relative error for |r| <= 1/2 is the least.
CAPTION_DEVICE float power_of_two(float x) {
  constexpr float kRounding = 0x1.8p23F;  // adding it rounds |x| < 2^22 to an integer
  const float shifted = x + kRounding;
  const float r = x - (shifted - kRounding);
  float p = fused(0x1.3a02ccp-7F, r, 0x1.c9fc46p-5F);
  p = fused(p, r, 0x1.ec0378p-3F);
  p = fused(p, r, 0x1.62e12cp-1F);
  p = fused(p, r, 1.0F);
  const float power = float_of_bits((bits_of_float(shifted) << 23) + 0x3F800000u);
  return x < -126.0F ? 0.0F : p * power;
}

// x / (1 + e^-x)
CAPTION_DEVICE float silu(float x) { return divide(x, 1.0F + exponential(-x)); }

// x / 2 * (1 + erf(z)) with z = x / sqrt(2). For |z| < 1, erf(z) is its Taylor polynomial to z^21,
// whose rest is below 2^-29; beyond, 1 - erf(|z|) = e^(-z^2) q(t) with t = (|z| - 2.5) / (|z|
// + 2.5) and a polynomial q that was fitted on [1, 10.2] in double precision, within 2^-23 of its
// value. Errors: 4 units in the last place where x > -1; left of it 6 + 6 z^2, as z^2 is rounded.
CAPTION_DEVICE float gelu(float x) {
  const float z = x * 0x1.6a09e6p-1F;  // 1 / sqrt(2)
  const float size = z < 0 ? -z : z;
  if (size < 1.0F) {
    const float square = z * z;
    float p = 1.480719281e-8F;  // 2 / sqrt(pi) / (10! * 21)
    p = fused(p, square, -1.636568469e-7F);
    p = fused(p, square, 1.646211445e-6F);
    p = fused(p, square, -1.492565036e-5F);
    p = fused(p, square, 1.205533298e-4F);
    p = fused(p, square, -8.548327024e-4F);
    p = fused(p, square, 5.223977625e-3F);
    p = fused(p, square, -2.686617065e-2F);
    p = fused(p, square, 1.128379167e-1F);
    p = fused(p, square, -3.761263890e-1F);
    p = fused(p, square, 1.128379167F);
    return 0.5F * x * fused(p, z, 1.0F);
  }
  const float bounded = size > 10.2F ? 10.2F : size;
  const float t = divide(bounded - 2.5F, bounded + 2.5F);
  float q = 0x1.3174fep-14F;
  q = fused(q, t, 0x1.c66a9ap-11F);
  q = fused(q, t, -0x1.537a02p-9F);
  q = fused(q, t, -0x1.062978p-8F);
  q = fused(q, t, 0x1.46ffbep-5F);
  q = fused(q, t, -0x1.0010dep-3F);
  q = fused(q, t, 0x1.01c128p-2F);
  q = fused(q, t, -0x1.7ca890p-2F);
  q = fused(q, t, 0x1.afbb40p-3F);
  const float tail = 0.5F * q * exponential(-(size * size));
  return x * (x < 0 ? tail : 1.0F - tail);
}

// x / (1 + e^(-2 sqrt(2 / pi) (x + 0.044715 x^3)))
CAPTION_DEVICE float gelu_tanh(float x) {
  const float power = -1.5957691216F * x * (1.0F + 0.044715F * (x * x));
  return divide(x, 1.0F + exponential(power));
}

struct SineCosine {
  float sine;
  float cosine;
};

// Of |angle| <= 2^31, each rounded from a double that is within 2^-38 of it: the nearest float but
// for ties. angle = n pi / 2 + r, and Taylor polynomials for |r| <= pi / 4.
CAPTION_DEVICE SineCosine sine_cosine(float angle) {
  constexpr double kRounding = 0x1.8p52;
  constexpr double kHalfPiHigh = 0x1.921fb54442d18p0;
  constexpr double kHalfPiLow = 0x1.1a62633145c07p-54;
  const double x = angle;
  const double n = fused(x, 0x1.45f306dc9c883p-1, kRounding) - kRounding;  // 2 / pi
  const double r = fused(n, -kHalfPiLow, fused(n, -kHalfPiHigh, x));
  const double square = r * r;
  double sine = 1.0 / 6227020800.0;  // 13!
  sine = fused(sine, square, -1.0 / 39916800);
  sine = fused(sine, square, 1.0 / 362880);
  sine = fused(sine, square, -1.0 / 5040);
  sine = fused(sine, square, 1.0 / 120);
  sine = fused(sine, square, -1.0 / 6);
  sine = fused(sine * square, r, r);
  double cosine = 1.0 / 479001600;  // 12!
  cosine = fused(cosine, square, -1.0 / 3628800);
  cosine = fused(cosine, square, 1.0 / 40320);
  cosine = fused(cosine, square, -1.0 / 720);
  cosine = fused(cosine, square, 1.0 / 24);
  cosine = fused(cosine, square, -0.5);
  cosine = fused(cosine, square, 1.0);
  const int quarter = static_cast<int>(n) & 3;
  const auto s = static_cast<float>(quarter % 2 == 0 ? sine : cosine);
  const auto c = static_cast<float>(quarter % 2 == 0 ? cosine : sine);
  return {.sine = quarter >= 2 ? -s : s, .cosine = quarter == 1 || quarter == 2 ? -c : c};
}

}  // namespace caption::kernels::cuda
