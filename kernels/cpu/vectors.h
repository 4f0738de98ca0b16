// kernels/cpu/vectors.h: single vectors of a token under one head, in and out of pages.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace caption::kernels::cpu {

// One head's vectors of a layer's K or V; `head` counts heads of tokens: slot * kv_heads + kv_head.
// y = the vector as f32.
void read_vector(ConstView pages, ConstView scales, std::int64_t head, float* y);
// The vector = x, rounded as kv_write rounds it.
void write_vector(View pages, View scales, std::int64_t head, const float* x);
// Bit for bit.
void move_vector(View pages, View scales, std::int64_t from, std::int64_t to);

}  // namespace caption::kernels::cpu
