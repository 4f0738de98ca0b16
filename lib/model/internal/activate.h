// model/internal/activate.h: the activation a configuration names, in place.
#pragma once

#include "kernels/activation.h"
#include "model/internal/config.h"

namespace caption::model {

inline void activate(Stream& stream, Activation activation, View x) {
  switch (activation) {
    case Activation::kGelu: return kernels::gelu_erf(stream, x, x);
    case Activation::kQuickGelu: return kernels::quick_gelu(stream, x, x);
  }
}

}  // namespace caption::model
