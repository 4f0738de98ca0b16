// kernels/cpu/internal/simd_exp.h: Tier::exp_sum, swish, gelu and gelu_tanh as templates over the
// register width (simd_gemm.h describes `Simd`).
#pragma once

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

// exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln 2 / 2; ln 2 is subtracted in two parts
// (Cody and Waite) and exp(r) is the Taylor polynomial of degree 7, whose remainder is below 2^-27.
// The error is at most 2 ulp; results outside the range of binary32 are 0 or infinity; NaN stays
// NaN.
template <class Simd>
typename Simd::Register exp(typename Simd::Register x) {
  using Register = typename Simd::Register;
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;  // 9 bits: n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  // Outside these limits the result is 0 or infinity; clamping keeps n within the range of scale().
  const Register clamped = Simd::clamp(x, -104.0F, 89.0F);
  const Register n = Simd::round(Simd::multiply(clamped, Simd::broadcast(kLog2E)));
  Register r = Simd::multiply_add(n, Simd::broadcast(-kLn2High), clamped);
  r = Simd::multiply_add(n, Simd::broadcast(-kLn2Low), r);
  Register p = Simd::broadcast(1.0F / 5040);
  p = Simd::multiply_add(p, r, Simd::broadcast(1.0F / 720));
  p = Simd::multiply_add(p, r, Simd::broadcast(1.0F / 120));
  p = Simd::multiply_add(p, r, Simd::broadcast(1.0F / 24));
  p = Simd::multiply_add(p, r, Simd::broadcast(1.0F / 6));
  p = Simd::multiply_add(p, r, Simd::broadcast(0.5F));
  p = Simd::multiply_add(p, r, Simd::broadcast(1.0F));
  p = Simd::multiply_add(p, r, Simd::broadcast(1.0F));
  return Simd::scale(p, n);
}

template <class Simd>
float exp_sum(float* x, std::int64_t n, float shift) {
  using Register = typename Simd::Register;
  const Register shifts = Simd::broadcast(shift);
  Register sums = Simd::zero();
  std::int64_t i = 0;
  for (; i + Simd::kWidth <= n; i += Simd::kWidth) {
    const Register y = exp<Simd>(Simd::subtract(Simd::load_floats(x + i), shifts));
    Simd::store(x + i, y);
    sums = Simd::add(sums, y);
  }
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    const Register y = exp<Simd>(Simd::subtract(Simd::load_part_floats(x + i, rest), shifts));
    Simd::store_part(x + i, y, rest);
    sums = Simd::add(sums, Simd::load_part_floats(x + i, rest));  // the unused lanes are 0
  }
  return Simd::sum(sums);
}

template <class Simd>
typename Simd::Register swish_of(typename Simd::Register x, float beta) {
  const typename Simd::Register power = exp<Simd>(Simd::multiply(x, Simd::broadcast(-beta)));
  return Simd::divide(x, Simd::add(Simd::broadcast(1.0F), power));
}

template <class Simd>
void swish(const SwishArgs& args) {
  using Register = typename Simd::Register;
  std::int64_t i = 0;
  for (; i + Simd::kWidth <= args.n; i += Simd::kWidth) {
    Register y = swish_of<Simd>(Simd::load_floats(args.x + i), args.beta);
    if (args.factor != nullptr) y = Simd::multiply(y, Simd::load_floats(args.factor + i));
    Simd::store(args.y + i, y);
  }
  if (i < args.n) {
    const int rest = static_cast<int>(args.n - i);
    Register y = swish_of<Simd>(Simd::load_part_floats(args.x + i, rest), args.beta);
    if (args.factor != nullptr) {
      y = Simd::multiply(y, Simd::load_part_floats(args.factor + i, rest));
    }
    Simd::store_part(args.y + i, y, rest);
  }
}

// x/2 * (1 + erf(x / sqrt 2)) = max(x, 0) - |x|/2 * E(|x|), E(u) = erfc(u / sqrt 2): this form has
// no cancellation for negative x. E(u) = exp(-u^2/2) * t * P(t) with t = 1 / (1 + 0.264 u), the
// form of Abramowitz and Stegun 7.1.26; P interpolates at the Chebyshev nodes of u in [0, 16], with
// an error of 1.1 * 2^-24 relative to E. Including rounding, the result is within 4 * 2^-24 * |x|
// of the exact value, and for negative x within (9 + 2 x^2) * 2^-24 relative to the result. Below
// -16 it is 0.
template <class Simd>
typename Simd::Register gelu_of(typename Simd::Register x) {
  using Register = typename Simd::Register;
  constexpr float kInfinity = __builtin_inff();
  constexpr float kP[] = {6.260416799e-02F,  -2.966980417e-01F, 4.576532272e-01F,
                          -2.548970426e-01F, 2.899803506e-01F,  1.152258390e-01F,
                          2.058720399e-01F,  2.095682312e-01F,  2.106912404e-01F};
  const Register near = Simd::clamp(x, -16.0F, 16.0F);
  const Register positive = Simd::clamp(near, 0.0F, 16.0F);
  const Register u = Simd::add(positive, Simd::subtract(positive, near));
  const Register one = Simd::broadcast(1.0F);
  const Register t = Simd::divide(one, Simd::multiply_add(u, Simd::broadcast(0.264F), one));
  Register p = Simd::broadcast(kP[0]);
  for (int i = 1; i < 9; ++i) p = Simd::multiply_add(p, t, Simd::broadcast(kP[i]));
  const Register half = Simd::multiply(u, Simd::broadcast(-0.5F));
  const Register power = exp<Simd>(Simd::multiply(half, u));
  const Register e = Simd::multiply(Simd::multiply(t, p), power);
  return Simd::multiply_add(half, e, Simd::clamp(x, 0.0F, kInfinity));
}

template <class Simd>
void gelu(const float* x, float* y, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + Simd::kWidth <= n; i += Simd::kWidth) {
    Simd::store(y + i, gelu_of<Simd>(Simd::load_floats(x + i)));
  }
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    Simd::store_part(y + i, gelu_of<Simd>(Simd::load_part_floats(x + i, rest)), rest);
  }
}

// x/2 * (1 + tanh(z)) = x / (1 + exp(-2 z)), z = sqrt(2/pi) * (x + 0.044715 x^3): this form has no
// cancellation for negative x. Where exp(-2 z) overflows, below about -9.6, the result is 0.
template <class Simd>
typename Simd::Register gelu_tanh_of(typename Simd::Register x) {
  using Register = typename Simd::Register;
  constexpr float kSqrt8OverPi = 1.59576912F;
  const Register one = Simd::broadcast(1.0F);
  const Register cubic = Simd::multiply_add(Simd::multiply(x, x), Simd::broadcast(0.044715F), one);
  const Register power = Simd::multiply(Simd::multiply(x, Simd::broadcast(-kSqrt8OverPi)), cubic);
  return Simd::divide(x, Simd::add(one, exp<Simd>(power)));
}

template <class Simd>
void gelu_tanh(const float* x, float* y, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + Simd::kWidth <= n; i += Simd::kWidth) {
    Simd::store(y + i, gelu_tanh_of<Simd>(Simd::load_floats(x + i)));
  }
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    Simd::store_part(y + i, gelu_tanh_of<Simd>(Simd::load_part_floats(x + i, rest)), rest);
  }
}

}  // namespace caption::kernels::cpu
