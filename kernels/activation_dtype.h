// kernels/activation_dtype.h: in which dtype activations lose nothing before a product.
#pragma once

#include "kernels/weight.h"

namespace caption::kernels {

// Returns bf16 or f16 where a GPU multiplies `weight` in these 16 bits: products then round their
// f32 input to this dtype, and also take input that has it. Returns f32 otherwise. An operation
// that writes its result in this dtype rounds it as the product would.
DType activation_dtype(const Weight& weight);

namespace impl {
inline DType activation_dtype(Cpu /*device*/, const Weight& /*weight*/) { return DType::kF32; }
DType activation_dtype(Cuda device, const Weight& weight);
}  // namespace impl

}  // namespace caption::kernels
