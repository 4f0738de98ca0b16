// kernels/cuda/epilogue.cuh: what becomes of a dense layer's sums before they are stored; the same
// for all of its kernels.
#pragma once

#include <cstdint>

#include "kernels/cuda/dense_layer.h"
#include "kernels/cuda/math.cuh"
#include "kernels/cuda/numbers.cuh"

namespace caption::kernels::cuda {

// Where the sums of a part are stored, and as what.
struct Output {
  ConstNumbers bias;   // [features], or null
  ConstNumbers scale;  // [features], or null
  Numbers y;           // [rows, features]
  std::int64_t y_stride;
  int features;
  LinearOutput kind;
};

inline Output output_of(const LinearPart& part, LinearOutput kind) {
  return {.bias = numbers_of(part.bias),
          .scale = numbers_of(part.scale),
          .y = numbers_of(part.y),
          .y_stride = part.y.row_stride(),
          .features = static_cast<int>(part.weight.num_features()),
          .kind = kind};
}

CAPTION_DEVICE float with_bias(const Output& to, int feature, float sum) {
  return to.bias.begin == nullptr ? sum : sum + load_numbers<1>(to.bias, feature).x[0];
}

CAPTION_DEVICE float activated(LinearOutput kind, float x) {
  switch (kind) {
    case LinearOutput::kGelu: return gelu(x);
    case LinearOutput::kGeluTanh: return gelu_tanh(x);
    case LinearOutput::kQuickGelu: return divide(x, 1.0F + exponential(-1.702F * x));
    case LinearOutput::kSilu: return silu(x);
    case LinearOutput::kRelu: return x < 0 ? 0 : x;  // a NaN stays
    case LinearOutput::kWrite:
    case LinearOutput::kAdd: break;
  }
  return x;
}

// The element [row, feature], which is inside y.
CAPTION_DEVICE void store_sum(const Output& to, std::int64_t row, int feature, float sum) {
  const std::int64_t at = row * to.y_stride + feature;
  float y = with_bias(to, feature, sum);
  if (to.kind == LinearOutput::kAdd) {
    if (to.scale.begin != nullptr) y *= load_numbers<1>(to.scale, feature).x[0];
    y = load(static_cast<const float*>(to.y.begin) + at) + y;
  }
  store_numbers<1>(to.y, at, {activated(to.kind, y)});
}

// The same of SwiGLU; y is that of `gate`.
CAPTION_DEVICE void store_swiglu(const Output& gate, const Output& up, std::int64_t row,
                                 int feature, float gate_sum, float up_sum) {
  const float y = silu(with_bias(gate, feature, gate_sum)) * with_bias(up, feature, up_sum);
  store_numbers<1>(gate.y, row * gate.y_stride + feature, {y});
}

}  // namespace caption::kernels::cuda
