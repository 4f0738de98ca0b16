// kernels/attention_mass.h: how much attention each key gets from chosen rows.
//   sums[g, j] += sum over the rows t, over the heads h of group g:
//                 softmax_j(scale * q[t, h] . k[j, g])       (the votes of SnapKV,
//                 arXiv:2404.14469)
#pragma once

#include <cstdint>
#include <span>

#include "kernels/paged_attention.h"

namespace caption::kernels {

struct AttentionWatch {
  std::int64_t sequence = 0;  // of the batch
  std::int64_t first_row =
      0;  // of q; the rows [first_row, first_row + num_rows) are the sequence's
  std::int64_t num_rows = 0;
  View sums;  // [kv_heads, >= context_len] f32, the first axis may be strided; added to
};

// q, context, scale as in paged_attention. Rows are added in their order and heads in theirs, so
// rows that come in several chunks leave the bits they leave in one. Probabilities are of full
// attention: a watched sequence must not have key clusters.
void attention_mass(Stream& stream, ConstView q, const PagedContext& context, float scale,
                    std::span<const AttentionWatch> watches);

namespace impl {
void attention_mass(Cpu device, Stream& stream, ConstView q, const PagedContext& context,
                    float scale, std::span<const AttentionWatch> watches);
void attention_mass(Cuda device, Stream& stream, ConstView q, const PagedContext& context,
                    float scale, std::span<const AttentionWatch> watches);
}  // namespace impl

}  // namespace caption::kernels
