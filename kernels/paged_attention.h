// kernels/paged_attention.h: writing the paged KV cache, and causal attention over it.
//
// A sequence's token at position p is in page block_tables[s, p / page_tokens], row p %
// page_tokens; its slot is page * page_tokens + row. Pages are [pages, page_tokens, kv_heads,
// head_dim], dense, f32, bf16, f16 or i8 (arXiv:2309.06180).
//
// With i8, a token's vector x of one head is stored as q and one bf16 scale:
//   scale = max|x| / 127 rounded up,   q = x / scale rounded to nearest, ties to even,
//   x ~ q * scale                      |q| <= 127, |x - q * scale| <= scale / 2
// With head_dim 64 a vector takes 66 bytes instead of 128 in bf16. A vector with an infinity or a
// NaN gets the scale NaN, which makes every result that sees it NaN, as such values do in the other
// dtypes. max|x| < 2^-143 counts as 0.
//
// All operations throw Error(kInternal) when shapes or dtypes disagree, or (CPU only) when an index
// is out of range.
#pragma once

#include <span>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

// One layer's pages. With i8, the scales are [pages, page_tokens, kv_heads] bf16, dense; otherwise
// they are empty.
struct KvLayer {
  View k;
  View v;
  View k_scales = {};
  View v_scales = {};
};

// pages.k[slots[t]] = k[t], pages.v[slots[t]] = v[t], rounded to the pages' dtype.
// k, v [T, kv_heads, head_dim] f32, the first axis may be strided; slots [T] i32 without
// duplicates.
void kv_write(Stream& stream, ConstView k, ConstView v, ConstView slots, const KvLayer& pages);

// Squeezed attention (arXiv:2411.09688, one level): the keys of the tokens [first_token,
// first_token + N) of a sequence in clusters (kernels/key_clusters.h). A query estimates the
// attention of a cluster,
//   share[c] = size[c] * exp(scale * q . centroid[c]) / sum over all clusters of the same term,
// and attends exactly to the tokens of the clusters with share >= threshold and to all tokens
// outside the clustered range; the query heads that share a key head attend to the union of their
// clusters. Tokens are processed in the order of positions, so with threshold 0 the result has the
// bits of full attention. A cluster whose share is NaN is attended to.
inline constexpr std::int64_t kMaxKeyClusters = 1024;
struct KeyClusters {
  ConstView centroids;   // [kv_heads, C, head_dim] f32
  ConstView sizes;       // [kv_heads, C] i32
  ConstView cluster_of;  // [kv_heads, N] i32
  std::int64_t first_token = 0;
  float threshold = 0;
};

// A ragged batch: prefill chunks and decodes of S sequences in one call. Sequence s owns the query
// rows [cu_seqlens[s], cu_seqlens[s + 1]), which are its last positions: with n rows, row i is at
// position p = context_lens[s] - n + i and sees the keys [0, p], or with a window of W tokens the
// keys [max(0, p - W + 1), p] (sliding_window_overlay() in transformers 4.57 masking_utils.py).
struct PagedContext {
  ConstView k_pages;     // [pages, page_tokens, kv_heads, head_dim], after kv_write() of this step
  ConstView v_pages;     // the same shape and dtype
  ConstView cu_seqlens;  // [S + 1] i32, ascending from 0 to T
  ConstView context_lens;  // [S] i32, tokens in the pages, including this step's
  // [S, max_pages] i32; entries past the context, and before the window of a sequence's first row,
  // are not read
  ConstView block_tables;
  ConstView k_scales = {};  // for i8 pages
  ConstView v_scales = {};
  std::span<const KeyClusters* const> clusters = {};  // [S] or empty; null: full attention
  std::int64_t window = 0;  // W >= 0; 0: no window. A window excludes clusters.
};

// y[t, h] = sum_j softmax_j(scale * q[t, h] . k[j, g]) * v[j, g],   g = h / (heads / kv_heads)
//
// q, y   [T, heads, head_dim] f32, the first axis may be strided; y must not overlap q. On a GPU y
//        may be bf16 or f16.
// scale  > 0, usually head_dim^-0.5
// head_dim <= 256. Softmax and sums are f32. Keys are processed in blocks of positions counted from
// 0 (online softmax, arXiv:1805.02867), 128 on the CPU, so a query's result has the same bits for
// any chunking, page size, batch and number of threads. With i8, a score is (q . k) * (scale *
// k_scale[j]), and a probability is multiplied by v_scale[j] before it is multiplied by v[j].
// Products are f32, except with pages of bf16 and i8 on a CPU tier that multiplies bf16: there q
// and the probabilities are rounded to bf16. On a GPU's tensor cores they are rounded to the pages'
// dtype, with i8 to bf16 (kernels/cuda/attend.h: attends_tiles() says when).
//
// On a GPU clusters throw Error(kUnavailable).
//
// On the CPU, whole blocks of keys that several block tables begin with are read once for all these
// sequences (cascade attention), as with beams or several prompts on one video. This does not
// change the bits of the results.
void paged_attention(Stream& stream, ConstView q, const PagedContext& context, float scale, View y);

// A GPU attends few rows in splits of 256 keys, from position 1,024 on of 512, whose states are in
// Stream::scratch() until they are folded, unless they exceed kMostStateBytes.
inline constexpr std::int64_t kGpuLongSplitsBegin = 1024;
// The number of splits of so many keys, from position 0 on.
constexpr std::int64_t count_gpu_splits(std::int64_t keys) {
  const std::int64_t in_short = keys < kGpuLongSplitsBegin ? keys : kGpuLongSplitsBegin;
  return (in_short + 255) / 256 + (keys - in_short + 511) / 512;
}
inline constexpr std::int64_t kMostStateBytes = std::int64_t{64} << 20;
constexpr std::int64_t attention_state_bytes(std::int64_t rows, std::int64_t heads,
                                             std::int64_t head_dim, std::int64_t num_splits) {
  return rows * heads * num_splits * ((head_dim + 7) / 8 * 8 + 8) * 4;
}
// The most that steps of up to `rows` rows take, which see up to `keys` keys each.
constexpr std::int64_t attention_scratch_bytes(std::int64_t rows, std::int64_t heads,
                                               std::int64_t head_dim, std::int64_t keys) {
  const std::int64_t bytes = attention_state_bytes(rows, heads, head_dim, count_gpu_splits(keys));
  return bytes < kMostStateBytes ? bytes : kMostStateBytes;
}

namespace impl {
void kv_write(Cpu device, Stream& stream, ConstView k, ConstView v, ConstView slots,
              const KvLayer& pages);
void kv_write(Cuda device, Stream& stream, ConstView k, ConstView v, ConstView slots,
              const KvLayer& pages);
void paged_attention(Cpu device, Stream& stream, ConstView q, const PagedContext& context,
                     float scale, View y);
void paged_attention(Cuda device, Stream& stream, ConstView q, const PagedContext& context,
                     float scale, View y);
}  // namespace impl

}  // namespace caption::kernels
