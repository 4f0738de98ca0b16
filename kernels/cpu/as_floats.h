// kernels/cpu/as_floats.h: the elements of a vector as f32.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace caption::kernels::cpu {

// Returns x itself if it is f32, otherwise a copy in `memory`, which has room for all elements.
inline const float* as_floats(ConstView x, float* memory) {
  if (x.dtype() == DType::kF32) return x.as<float>();
  dispatch_float(x.dtype(), [&](auto tag) {
    const auto* const from = x.as<decltype(tag)>();
    for (std::int64_t i = 0; i < x.dim(0); ++i) memory[i] = to_float(from[i]);
  });
  return memory;
}

}  // namespace caption::kernels::cpu
