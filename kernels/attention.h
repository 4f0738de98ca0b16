// kernels/attention.h: dense bidirectional attention over sequences of equal length (vision), and
// attention of a few rows over other rows (cross attention).
//   y[f, t, h] = sum_j softmax_j(scale * q[f, t, h] . k[f, j, g]) * v[f, j, g]
// where g = h / (heads / kv_heads)
//
// q, y        [frames * seq_len, heads, head_dim] f32; the first axis may be strided; y must not
//             overlap the other operands; head_dim <= 256. On a GPU y may be bf16 or f16.
// k, v        [frames * kv_len, kv_heads, head_dim], both with the same row stride; both f32, bf16
//             or f16; kv_heads divides heads
// seq_len     rows of q of a frame; must divide the number of rows
// kv_len      rows of k and v of a frame; 0: seq_len
// scale       > 0, usually head_dim^-0.5
// Products are f32; where k and v are bf16 and the tier multiplies bf16, q and the probabilities
// are rounded to bf16, as paged_attention() does; on a GPU's tensor cores as there. Softmax and
// sums are f32. Their order is that of kernels/paged_attention.h, so both operations give the same
// bits on the same keys, except where a CPU tier multiplies bf16: there blocks of keys have equal
// sizes, and probabilities have a further relative error of up to 2^-18
// (kernels/cpu/attend_panels.h). A query's result does not depend on the other queries and frames
// of the call or on the number of threads, bit for bit. Without rows nothing is done. Throws
// Error(kInternal) when shapes or dtypes disagree.
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
  std::int64_t kv_len = 0;
  float scale = 0;
};

void attention(Stream& stream, const AttentionInput& input, View y);

namespace impl {
void attention(Cpu device, Stream& stream, const AttentionInput& input, View y);
void attention(Cuda device, Stream& stream, const AttentionInput& input, View y);
}  // namespace impl

}  // namespace caption::kernels
