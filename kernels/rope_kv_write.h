// kernels/rope_kv_write.h: what becomes of q, k and v between their dense layers and attention.
//   q[t, h]             = rope(norm(q[t, h]))
//   pages.k[slots[t]]   = rope(norm(k[t]))
//   pages.v[slots[t]]   = v[t]
// norm is rms_norm() of a head (kernels/norm.h), or nothing; rope that of kernels/rope.h; pages are
// written as by kv_write() (kernels/paged_attention.h). The results have the bits of these
// operations one after the other; on a GPU where head_dim is at most 128, or a multiple of 4 with
// heads that are aligned to 16 bytes. Throws Error(kInternal) when shapes or dtypes disagree, or
// (CPU only) when a slot is out of range.
#pragma once

#include "backend/stream.h"
#include "kernels/paged_attention.h"
#include "tensor/tensor.h"

namespace caption::kernels {

// q               [T, heads, head_dim] f32
// k, v            [T, kv_heads, head_dim] f32; k is undefined afterwards
// q_norm, k_norm  [head_dim] f32, bf16 or f16, both or neither
// eps             > 0 with norms
// The first axis of q, k and v may be strided; head_dim is even and at most 256.
struct ProjectedHeads {
  View q;
  View k;
  ConstView v;
  ConstView q_norm = {};
  ConstView k_norm = {};
  float eps = 0;
};

// rope_table [T, head_dim] f32 from rope_table(); slots [T] i32 without duplicates.
void rope_kv_write(Stream& stream, const ProjectedHeads& heads, ConstView rope_table,
                   ConstView slots, const KvLayer& pages);

namespace impl {
void rope_kv_write(Cpu device, Stream& stream, const ProjectedHeads& heads, ConstView rope_table,
                   ConstView slots, const KvLayer& pages);
void rope_kv_write(Cuda device, Stream& stream, const ProjectedHeads& heads, ConstView rope_table,
                   ConstView slots, const KvLayer& pages);
}  // namespace impl

}  // namespace caption::kernels
