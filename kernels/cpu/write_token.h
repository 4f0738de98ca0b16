// kernels/cpu/write_token.h: writing a token's keys or values to its slot.
#pragma once

#include <cstdint>

#include "kernels/paged_attention.h"
#include "tensor/tensor.h"

namespace caption::kernels::cpu {

// Operations that writing an element of a head takes, approximately.
inline constexpr std::int64_t kOperationsPerWrite = 8;

// Throws Error(kInternal) if a slot is outside the pages.
void check_slots(ConstView slots, const KvLayer& pages);

// Writes the token's heads [kv_heads, head_dim], dense, rounded to the dtype of the pages, to the
// slot; `scales` are those of pages of i8.
void write_token(const float* from, std::int64_t slot, View pages, View scales);

}  // namespace caption::kernels::cpu
