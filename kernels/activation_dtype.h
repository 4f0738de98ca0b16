// kernels/activation_dtype.h: in which dtype activations lose nothing before a product.
#pragma once

#include "kernels/weight.h"

namespace caption::kernels {

// The dtype to which products with `weight` round their input, where the device takes activations
// of it: bf16 or f16 on a GPU that multiplies the weight's 16-bit numbers. Otherwise f32. An
// operation that writes its result in this dtype rounds it as the product would.
DType activation_dtype(const Weight& weight);

namespace impl {
inline DType activation_dtype(Cpu /*device*/, const Weight& /*weight*/) { return DType::kF32; }
DType activation_dtype(Cuda device, const Weight& weight);
}  // namespace impl

}  // namespace caption::kernels
