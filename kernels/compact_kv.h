// kernels/compact_kv.h: compaction of a sequence's KV pages in place: some tokens are kept, the
// others are replaced by means of runs of tokens.
//
// For each key head, with N tokens before:
//   slots [0, K)      the kept tokens in their order, unchanged bit for bit
//   slots [K, K + M)  the other tokens in their order, cut into M runs of nearly equal length
//                     (longer runs first); a slot holds the mean of its run's keys and the mean of
//                     its values, rounded to the dtype of the pages
// Keys are stored after RoPE, so a kept key keeps its position although its slot changes. In the
// softmax a mean has the weight of one token, not of its whole run, so part of the attention that
// the merged tokens received is lost.
#pragma once

#include <cstdint>

#include "kernels/paged_attention.h"

namespace caption::kernels {

struct Compaction {
  KvLayer pages;
  ConstView block_table;  // [n] i32; no other sequence may read these pages
  std::int64_t num_tokens = 0;
  ConstView kept;                  // [kv_heads, K] i32, ascending positions in [0, num_tokens)
  std::int64_t num_summaries = 0;  // M <= num_tokens - K; > 0 unless K is num_tokens
};

// Allocates working memory, so call it once per prompt, not in every step. Synchronous. Throws
// Error(kInternal) when shapes disagree or an index is out of range, before anything is written.
void compact_kv(Stream& stream, const Compaction& compaction);

namespace impl {
void compact_kv(Cpu device, Stream& stream, const Compaction& compaction);
void compact_kv(Cuda device, Stream& stream, const Compaction& compaction);
}  // namespace impl

}  // namespace caption::kernels
