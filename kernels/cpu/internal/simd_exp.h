// kernels/cpu/internal/simd_exp.h: Tier::exp_sum and Tier::swish, written once for all widths.
// `Simd` as in simd_gemm.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

// exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln 2 / 2; ln 2 is subtracted in two parts
// (Cody and Waite) and exp(r) is the Taylor polynomial of degree 7, whose remainder is below 2^-27.
// Within 2 ulp of the exact value; 0 and infinity where binary32 has no other, NaN stays NaN.
template <class Simd>
typename Simd::Register exp(typename Simd::Register x) {
  using Register = typename Simd::Register;
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f;  // 9 bits: n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  // Beyond these the result is 0 or infinity, and n stays where scale() is good for it.
  const Register clamped = Simd::clamp(x, -104.0f, 89.0f);
  const Register n = Simd::round(Simd::multiply(clamped, Simd::broadcast(kLog2E)));
  Register r = Simd::multiply_add(n, Simd::broadcast(-kLn2High), clamped);
  r = Simd::multiply_add(n, Simd::broadcast(-kLn2Low), r);
  Register p = Simd::broadcast(1.0f / 5040);
  p = Simd::multiply_add(p, r, Simd::broadcast(1.0f / 720));
  p = Simd::multiply_add(p, r, Simd::broadcast(1.0f / 120));
  p = Simd::multiply_add(p, r, Simd::broadcast(1.0f / 24));
  p = Simd::multiply_add(p, r, Simd::broadcast(1.0f / 6));
  p = Simd::multiply_add(p, r, Simd::broadcast(0.5f));
  p = Simd::multiply_add(p, r, Simd::broadcast(1.0f));
  p = Simd::multiply_add(p, r, Simd::broadcast(1.0f));
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
    sums = Simd::add(sums, Simd::load_part_floats(x + i, rest));  // zeros beside the rest
  }
  return Simd::sum(sums);
}

template <class Simd>
typename Simd::Register swish_of(typename Simd::Register x, float beta) {
  const typename Simd::Register power = exp<Simd>(Simd::multiply(x, Simd::broadcast(-beta)));
  return Simd::divide(x, Simd::add(Simd::broadcast(1.0f), power));
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

}  // namespace caption::kernels::cpu
