// kernels/cpu/internal/simd_norm.h: Tier's norms and rotation as templates over the register width
// (simd_gemm.h describes `Simd`). No multiply-add is fused, so every tier gives the bits of the
// plain loops.
#pragma once

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

// Loads up to kWidth of the n floats from x[i] on; the remaining lanes are zero.
template <class Simd>
typename Simd::Register load_some(const float* x, std::int64_t i, std::int64_t n) {
  if (n - i >= Simd::kWidth) return Simd::load_floats(x + i);
  return Simd::load_part_floats(x + i, static_cast<int>(n - i));
}
template <class Simd>
void store_some(float* y, std::int64_t i, std::int64_t n, typename Simd::Register x) {
  if (n - i >= Simd::kWidth) return Simd::store(y + i, x);
  Simd::store_part(y + i, x, static_cast<int>(n - i));
}

// Returns the sum of term(x[i]) over a row; term(0) must be 0, because the tail is padded with
// zeros.
template <class Simd, class Term>
float sum_of_terms(const float* x, std::int64_t n, const Term& term) {
  constexpr int kRegisters = kNormLanes / Simd::kWidth;
  typename Simd::Register sums[kRegisters];
  for (int r = 0; r < kRegisters; ++r) sums[r] = Simd::zero();
  for (std::int64_t i = 0; i < n; i += kNormLanes) {
    for (int r = 0; r < kRegisters && i + r * Simd::kWidth < n; ++r) {
      sums[r] = Simd::add(sums[r], term(load_some<Simd>(x, i + r * Simd::kWidth, n)));
    }
  }
  alignas(64) float lanes[kNormLanes];
  for (int r = 0; r < kRegisters; ++r) Simd::store(lanes + r * Simd::kWidth, sums[r]);
  return sum_of_lanes(lanes);
}

template <class Simd>
float sum_of_squares(const float* x, std::int64_t n) {
  using Register = typename Simd::Register;
  return sum_of_terms<Simd>(x, n, [](Register v) { return Simd::multiply(v, v); });
}

// Returns 1 / sqrt(mean_square + eps).
static inline float norm_factor(float mean_square, float eps) {
  return 1.0F / __builtin_sqrtf(mean_square + eps);
}

template <class Simd>
void rms_norm(const NormArgs& args) {
  const float squares = sum_of_squares<Simd>(args.x, args.n);
  const auto factor = Simd::broadcast(norm_factor(squares / static_cast<float>(args.n), args.eps));
  for (std::int64_t i = 0; i < args.n; i += Simd::kWidth) {
    const auto scaled = Simd::multiply(load_some<Simd>(args.x, i, args.n), factor);
    store_some<Simd>(args.y, i, args.n,
                     Simd::multiply(scaled, load_some<Simd>(args.weight, i, args.n)));
  }
}

template <class Simd>
void layer_norm(const NormArgs& args) {
  using Register = typename Simd::Register;
  const auto n = static_cast<float>(args.n);
  const float mean = sum_of_terms<Simd>(args.x, args.n, [](Register v) { return v; }) / n;
  const Register means = Simd::broadcast(mean);
  for (std::int64_t i = 0; i < args.n; i += Simd::kWidth) {
    store_some<Simd>(args.y, i, args.n, Simd::subtract(load_some<Simd>(args.x, i, args.n), means));
  }
  const float variance = sum_of_squares<Simd>(args.y, args.n) / n;
  const Register factor = Simd::broadcast(norm_factor(variance, args.eps));
  for (std::int64_t i = 0; i < args.n; i += Simd::kWidth) {
    const Register scaled =
        Simd::multiply(Simd::multiply(load_some<Simd>(args.y, i, args.n), factor),
                       load_some<Simd>(args.weight, i, args.n));
    store_some<Simd>(args.y, i, args.n, Simd::add(scaled, load_some<Simd>(args.bias, i, args.n)));
  }
}

template <class Simd>
void rotate(const RotateArgs& args) {
  using Register = typename Simd::Register;
  for (std::int64_t i = 0; i < args.n; i += Simd::kWidth) {
    const Register a = load_some<Simd>(args.low, i, args.n);
    const Register b = load_some<Simd>(args.high, i, args.n);
    const Register cosines = load_some<Simd>(args.cosines, i, args.n);
    const Register sines = load_some<Simd>(args.sines, i, args.n);
    store_some<Simd>(args.low, i, args.n,
                     Simd::subtract(Simd::multiply(a, cosines), Simd::multiply(b, sines)));
    store_some<Simd>(args.high, i, args.n,
                     Simd::add(Simd::multiply(b, cosines), Simd::multiply(a, sines)));
  }
}

}  // namespace caption::kernels::cpu
