// kernels/attention.h: dense bidirectional attention over sequences of equal length (vision).
//   y[f, t, h] = sum_j softmax_j(scale * q[f, t, h] . k[f, j, h]) * v[f, j, h]
//
// q, y        [frames * seq_len, heads, head_dim] f32, the first axis may be strided; y must not
//             overlap the others; head_dim <= 256
// k, v        of the same shape and of one row stride; both f32, bf16 or f16
// seq_len     tokens of a frame, divides the rows
// scale       > 0, usually head_dim^-0.5
// Softmax and sums are f32, in the order of kernels/paged_attention.h: the two agree bit for bit
// on the same keys. Products are f32; on a tier with products of bf16, keys of bf16 have q and the
// probabilities rounded to bf16, as pages of bf16 do. A frame's result has the same bits alone and
// among others, with any number of threads. Throws Error(kInternal) when shapes or dtypes disagree.
#pragma once

#include <cstdint>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

struct AttentionInput {
  ConstView q;
  ConstView k;
  ConstView v;
  std::int64_t seq_len = 0;
  float scale = 0;
};

void attention(Stream& stream, const AttentionInput& input, View y);

namespace impl {
void attention(Cpu device, Stream& stream, const AttentionInput& input, View y);
void attention(Cuda device, Stream& stream, const AttentionInput& input, View y);
}  // namespace impl

}  // namespace caption::kernels
