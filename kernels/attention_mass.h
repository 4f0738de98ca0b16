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
  std::int64_t sequence = 0;  // index in the batch
  // The rows [first_row, first_row + num_rows) of q belong to the sequence.
  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;
  View sums;  // [kv_heads, >= context_len] f32, the first axis may be strided; accumulated into
};

// q, context and scale are as in paged_attention(). Contributions are added in the order of rows,
// within a row in the order of heads, so splitting the rows over several calls gives the same bits.
// Keys outside the context's window get nothing and are not read, as in paged_attention(); the
// engine itself watches no rows of models with windows, which it does not compress. The
// probabilities are those of all keys that a row sees: a watched sequence must not have key
// clusters.
// Throws Error(kInternal) when shapes or dtypes disagree, or (CPU only) an index is out of range.
void attention_mass(Stream& stream, ConstView q, const PagedContext& context, float scale,
                    std::span<const AttentionWatch> watches);

namespace impl {
void attention_mass(Cpu device, Stream& stream, ConstView q, const PagedContext& context,
                    float scale, std::span<const AttentionWatch> watches);
void attention_mass(Cuda device, Stream& stream, ConstView q, const PagedContext& context,
                    float scale, std::span<const AttentionWatch> watches);
}  // namespace impl

}  // namespace caption::kernels
