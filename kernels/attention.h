// kernels/attention.h: dense bidirectional attention over sequences of equal length (vision).
//   y[f, t, h] = sum_j softmax_j(scale * q[f, t, h] . k[f, j, h]) * v[f, j, h]
//
// q, k, v, y  [frames * seq_len, heads, head_dim] f32, the first axis may be strided; y must not
//             overlap the others; head_dim <= 256
// seq_len     tokens of a frame, divides the rows
// scale       > 0, usually head_dim^-0.5
// Softmax and sums are f32, in the order of kernels/paged_attention.h: the two agree bit for bit
// on the same keys. Throws Error(kInternal) when shapes or dtypes disagree.
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
