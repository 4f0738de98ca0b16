// kernels/compact_kv.h: fewer keys and values in a sequence's own pages: some kept, the rest
// averaged.
//
// Per key head, of the tokens [0, N):
//   slots [0, K)      the kept tokens, in their order, bit for bit
//   slots [K, K + M)  the others in their order, cut into M runs as equal as can be (longer ones
//                     first); each run's mean of K and of V, rounded to the pages' dtype
// K was stored after RoPE, so what is kept stays at its position though it changes its slot. A
// summary has the weight of one token in the softmax, not that of its run: what many dropped
// tokens had together is lost in part. That is the price of this compression.
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

// Allocates working memory: for the end of a prompt, not for every step. Returns when it has run.
// Throws Error(kInternal) when shapes disagree or an index is out of range; nothing is written
// then.
void compact_kv(Stream& stream, const Compaction& compaction);

namespace impl {
void compact_kv(Cpu device, Stream& stream, const Compaction& compaction);
void compact_kv(Cuda device, Stream& stream, const Compaction& compaction);
}  // namespace impl

}  // namespace caption::kernels
