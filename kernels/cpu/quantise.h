// kernels/cpu/quantise.h: quantisation of a vector to int8 with one scale, the format of int8 pages
// (defined in kernels/paged_attention.h).
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace caption::kernels::cpu {

// Writes y[n] and returns the scale; gives the same bits on every tier.
BF16 quantise(const float* x, std::int64_t n, std::int8_t* y);

}  // namespace caption::kernels::cpu
