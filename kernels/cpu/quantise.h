// kernels/cpu/quantise.h: a vector of int8 with one scale, as pages of int8 hold it
// (kernels/paged_attention.h says what the numbers mean).
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace caption::kernels::cpu {

// Writes y[n] and returns their scale; the same bits on every tier.
BF16 quantise(const float* x, std::int64_t n, std::int8_t* y);

}  // namespace caption::kernels::cpu
