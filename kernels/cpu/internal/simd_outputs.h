// kernels/cpu/internal/simd_outputs.h: Tier's functions between the sums of a dense layer and its
// output, as templates over the register width (simd_gemm.h describes `Simd`).
#pragma once

#include <cstdint>

#include "kernels/cpu/tier.h"

namespace caption::kernels::cpu {

template <class Simd>
void scale_integers(const IntegerScaleArgs& args) {
  using Register = typename Simd::Register;
  for (std::int64_t m = 0; m < args.m; ++m) {
    const Register scale = Simd::broadcast(args.rows[m].scale);
    const std::int32_t offset = 128 * args.rows[m].sum;
    for (std::int64_t n = 0; n < kPanelColumns; n += Simd::kWidth) {
      const Register sums = Simd::load_integers(args.sums + m * kPanelColumns + n, offset);
      const Register scales = Simd::multiply(scale, Simd::load_floats(args.scales + n));
      Simd::store(args.y + m * args.y_stride + n, Simd::multiply(sums, scales));
    }
  }
}

template <class Simd>
void add_bias(const BiasArgs& args) {
  using Register = typename Simd::Register;
  const std::int64_t whole = args.n / Simd::kWidth * Simd::kWidth;
  const int rest = static_cast<int>(args.n - whole);
  for (std::int64_t m = 0; m < args.m; ++m) {
    const float* const x = args.x + m * args.x_stride;
    float* const y = args.y + m * args.y_stride;
    for (std::int64_t n = 0; n < whole; n += Simd::kWidth) {
      Register sum = Simd::add(Simd::load_floats(x + n), Simd::load_floats(args.bias + n));
      if (args.scale != nullptr) sum = Simd::multiply(sum, Simd::load_floats(args.scale + n));
      if (args.add) sum = Simd::add(Simd::load_floats(y + n), sum);
      Simd::store(y + n, sum);
    }
    if (rest == 0) continue;
    Register sum = Simd::add(Simd::load_part_floats(x + whole, rest),
                             Simd::load_part_floats(args.bias + whole, rest));
    if (args.scale != nullptr) {
      sum = Simd::multiply(sum, Simd::load_part_floats(args.scale + whole, rest));
    }
    if (args.add) sum = Simd::add(Simd::load_part_floats(y + whole, rest), sum);
    Simd::store_part(y + whole, sum, rest);
  }
}

}  // namespace caption::kernels::cpu
