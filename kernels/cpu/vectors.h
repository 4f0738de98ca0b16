// kernels/cpu/vectors.h: reading, writing and moving a token's vector of one head in pages.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace caption::kernels::cpu {

// `head` is the index of a head's vector in a layer's K or V: slot * kv_heads + kv_head.
//
// Writes the vector to y [head_dim] as f32.
void read_vector(ConstView pages, ConstView scales, std::int64_t head, float* y);
// Stores x [head_dim] as the vector, rounded as kv_write() rounds it.
void write_vector(View pages, View scales, std::int64_t head, const float* x);
// Copies a vector bit for bit, with its scale if the pages have scales.
void move_vector(View pages, View scales, std::int64_t from, std::int64_t to);

}  // namespace caption::kernels::cpu
