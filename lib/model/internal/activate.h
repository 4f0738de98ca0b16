// model/internal/activate.h: a linear layer followed by the activation that a configuration names.
#pragma once

#include "kernels/linear.h"
#include "model/internal/placed_weights.h"

namespace caption::model {

inline void linear_activated(Stream& stream, Activation activation, ConstView x,
                             const LinearWeights& layer, View y) {
  switch (activation) {
    case Activation::kGelu: return kernels::linear_gelu(stream, x, layer.weight, layer.bias, y);
    case Activation::kGeluTanh:
      return kernels::linear_gelu_tanh(stream, x, layer.weight, layer.bias, y);
    case Activation::kQuickGelu:
      return kernels::linear_quick_gelu(stream, x, layer.weight, layer.bias, y);
    case Activation::kSilu: return kernels::linear_silu(stream, x, layer.weight, layer.bias, y);
    case Activation::kRelu: return kernels::linear_relu(stream, x, layer.weight, layer.bias, y);
  }
}

}  // namespace caption::model
