// model/decoder.h: a causal language model over a paged KV cache, as the engine sees it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/stream.h"
#include "kernels/paged_attention.h"
#include "tensor/tensor.h"

namespace caption::model {

struct DecoderSpec {
  std::int64_t num_layers = 0;
  std::int64_t hidden = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;          // rows of the LM head
  std::int64_t max_positions = 0;  // longest sequence the positions are good for
};

// K and V of every layer: [pages, page_tokens, kv_heads, head_dim] each, f32, bf16, f16 or i8; with
// i8 their scales [pages, page_tokens, kv_heads] bf16 (kernels/paged_attention.h).
struct KvPages {
  std::vector<View> k;  // by layer
  std::vector<View> v;
  std::vector<View> k_scales;  // empty unless i8
  std::vector<View> v_scales;
  std::int64_t page_tokens = 16;
};

// Rows of one sequence whose attention is to be summed per key (kernels/attention_mass.h).
struct WatchedRows {
  std::int32_t sequence = 0;   // of the batch
  std::int32_t first_row = 0;  // of `tokens`
  std::int32_t num_rows = 0;
  View sums;  // [num_layers, kv_heads, >= context_len] f32, dense; added to
};

// One ragged step: prefill chunks and decodes of several sequences, flattened. T tokens of S
// sequences; sequence s owns the rows [cu_seqlens[s], cu_seqlens[s + 1]).
struct StepBatch {
  std::span<const std::int32_t> tokens;        // [T]; a placeholder's id where `vision` has its row
  std::span<const std::int32_t> positions;     // [T] position in its own sequence
  std::span<const std::int32_t> cu_seqlens;    // [S + 1], starts with 0
  std::span<const std::int32_t> context_lens;  // [S] tokens in the pages after this step
  std::span<const std::int32_t> block_tables;  // [S, max_pages], page ids; unused entries -1
  std::int64_t max_pages = 0;
  std::span<const std::int32_t> slots;  // [T] page * page_tokens + offset where K and V are written
  // Rows of `tokens` whose embedding is a vision token instead, ascending, and those embeddings.
  std::span<const std::int32_t> vision_rows;  // [V]
  std::vector<ConstView> vision;              // pieces [n_i, hidden] f32, in order; sum of n_i = V
  // Rows of `tokens` whose logits are wanted, ascending.
  std::span<const std::int32_t> logit_rows;  // [L]
  // Compressed attention. A sequence's K and V may take fewer slots than it has had tokens: then
  // context_lens count slots, while `positions` go on as if nothing had been left out.
  std::span<const WatchedRows> watched = {};
  // [S] or empty: the key clusters of a sequence whose rows attend by them, one per layer; null:
  // full attention (kernels/paged_attention.h).
  std::span<const std::vector<kernels::KeyClusters>* const> clusters = {};
};

// Scratch memory is owned by the Decoder and grows to the largest batch seen (reserve() sizes it
// beforehand): no allocation inside a steady step. One thread at a time.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual const DecoderSpec& spec() const = 0;
  virtual void reserve(std::int64_t max_tokens, std::int64_t max_logit_rows) = 0;
  // Of the scratch memory held now.
  virtual std::int64_t scratch_bytes() const = 0;
  // Writes K and V of all T tokens into the pages and logits [L, vocab] f32.
  // Throws Error(kInternal) when the batch is inconsistent.
  virtual void forward(Stream& stream, const StepBatch& batch, const KvPages& kv, View logits) = 0;
};

}  // namespace caption::model
