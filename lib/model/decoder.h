// model/decoder.h: the engine's interface to a causal language model over a paged KV cache.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/stream.h"
#include "kernels/paged_attention.h"
#include "model/rope.h"
#include "tensor/tensor.h"

namespace caption::model {

// A decoder of the Llama architecture, and of those that differ from it by biases, norms of heads
// and sliding windows: Mistral, Qwen2, Qwen3.
struct DecoderSpec {
  std::int64_t num_layers = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;  // width of the MLP
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;          // rows of the LM head
  std::int64_t max_positions = 0;  // longest sequence that the position encoding supports
  bool tied_embeddings = false;    // the LM head is the embedding
  bool qk_norm = false;   // RMSNorm of every head of q and k before the rotation, as in Qwen3
  bool qkv_bias = false;  // q_proj, k_proj and v_proj have biases
  bool o_bias = false;    // o_proj has a bias
  bool mlp_bias = false;  // gate_proj, up_proj and down_proj have biases
  float rms_norm_eps = 1e-6F;
  RopeSpec rope = {};
  // Tokens that a row of layer i sees, the row's own included; 0: all of them. Empty: all of them
  // in every layer.
  std::vector<std::int64_t> windows = {};
  // M-RoPE: numbers of frequencies that follow a token's position in time, height and width; their
  // sum is head_dim / 2. All 0: tokens have one position.
  std::array<std::int64_t, 3> mrope_section = {0, 0, 0};
  bool mrope_interleaved = false;  // the axes alternate, as in Qwen3-VL, instead of one block each
  // DeepStack: vision tokens carry one more row for each of the first layers, which is added to the
  // token's hidden state after that layer (arXiv:2406.04334).
  std::int64_t deepstack_layers = 0;

  std::int64_t q_dim() const { return num_heads * head_dim; }
  std::int64_t kv_dim() const { return num_kv_heads * head_dim; }
  std::int64_t window_of(std::size_t layer) const { return windows.empty() ? 0 : windows[layer]; }
  bool has_window() const {
    return std::any_of(windows.begin(), windows.end(), [](std::int64_t w) { return w > 0; });
  }
  // The widest window if every layer has one, otherwise 0: no layer reads earlier tokens.
  std::int64_t window_of_all_layers() const {
    const bool some_see_all = windows.empty() || std::count(windows.begin(), windows.end(), 0) > 0;
    return some_see_all ? 0 : *std::max_element(windows.begin(), windows.end());
  }
  bool has_mrope() const { return mrope_section[0] > 0; }
  std::int64_t position_axes() const { return has_mrope() ? 3 : 1; }
  // Numbers of one vision token: its embedding, then its DeepStack rows.
  std::int64_t vision_width() const { return hidden * (1 + deepstack_layers); }
};

// Bytes of K and V of one token over all layers; for i8 including the scales (bf16 per token and
// head).
inline std::int64_t kv_token_bytes(const DecoderSpec& spec, DType dtype) {
  const std::int64_t scale_bytes = dtype == DType::kI8 ? 2 : 0;
  const std::int64_t head_bytes =
      spec.head_dim * static_cast<std::int64_t>(dtype_size_bytes(dtype)) + scale_bytes;
  return 2 * spec.num_layers * spec.num_kv_heads * head_bytes;
}

// Rows of a step that the projections and the MLP process at a time, so that their intermediate
// results do not grow with the step; only x, q and the output of attention have a row for every
// token. On a CPU these results stay in its caches. On a GPU every piece reads all weights from
// DRAM; the products of 2,304 rows take longer than that on each of the cards that
// bench/cuda_prediction.h lists, and have enough blocks for all multiprocessors. No bit depends on
// it.
constexpr std::int64_t decoder_piece_rows(Device device) { return device.is_cuda() ? 2304 : 384; }

// K and V of every layer, [pages, page_tokens, kv_heads, head_dim] f32, bf16, f16 or i8; with i8
// also their scales, [pages, page_tokens, kv_heads] bf16 (kernels/paged_attention.h).
struct KvPages {
  std::vector<View> k;  // one view per layer
  std::vector<View> v;
  std::vector<View> k_scales;  // empty unless i8
  std::vector<View> v_scales;
  std::int64_t page_tokens = 16;
};

// Rows of one sequence whose attention is summed per key (kernels/attention_mass.h).
struct WatchedRows {
  std::int32_t sequence = 0;   // index in the batch
  std::int32_t first_row = 0;  // index into `tokens`
  std::int32_t num_rows = 0;
  View sums;  // [num_layers, kv_heads, >= context_len] f32, dense; accumulated into
};

// Consecutive rows to which one of the decoder's adapters is applied.
struct AdaptedRows {
  std::int32_t adapter = 0;  // in [0, Decoder::num_adapters())
  std::int32_t first_row = 0;
  std::int32_t num_rows = 0;
};

// One ragged step: prefill chunks and decodes of several sequences, flattened into T tokens of S
// sequences; sequence s owns the rows [cu_seqlens[s], cu_seqlens[s + 1]). All arrays are i32, dense
// and on the stream's device.
struct StepBatch {
  ConstView tokens;        // [T]; a placeholder's id for each row in `vision_rows`
  ConstView positions;     // [T] position in the token's sequence; with M-RoPE [3, T]
  ConstView cu_seqlens;    // [S + 1], ascending from 0 to T
  ConstView context_lens;  // [S] tokens in the pages after this step
  ConstView block_tables;  // [S, max_pages], page ids; unused entries -1
  ConstView slots;         // [T] page * page_tokens + offset where K and V are written
  // Rows of `tokens`, ascending, whose embedding is a vision token, and these tokens.
  ConstView vision_rows;          // [V]
  std::vector<ConstView> vision;  // pieces [n_i, vision_width] f32, in order; sum of n_i = V
  // Rows of `tokens`, ascending, for which logits are computed.
  ConstView logit_rows;  // [L]
  // The layers that are computed, ascending; empty: all. The output of any other layer is its
  // input, and its K and V are neither read nor written (self-drafts, arXiv:2309.08168).
  std::span<const std::int32_t> layers = {};
  // Compressed attention: K and V of a sequence may take fewer slots than the sequence has tokens.
  // Then context_lens count slots, while `positions` still count all tokens.
  std::span<const WatchedRows> watched = {};
  // [S] or empty: the key clusters of a sequence, one per layer; null means full attention
  // (kernels/paged_attention.h).
  std::span<const std::vector<kernels::KeyClusters>* const> clusters = {};
  // The rows of `tokens`, and those of the logits, that an adapter changes; ascending, each row at
  // most once. The others are those of the model alone, bit for bit.
  std::span<const AdaptedRows> adapted = {};
  std::span<const AdaptedRows> adapted_logits = {};

  std::int64_t num_tokens() const { return tokens.dim(0); }
  std::int64_t num_sequences() const { return context_lens.dim(0); }
  std::int64_t num_logit_rows() const { return logit_rows.dim(0); }
};

// The Decoder owns its scratch memory, which grows to the largest batch seen so far; reserve()
// sizes it in advance, so that steady steps do not allocate. One thread at a time.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual const DecoderSpec& spec() const = 0;
  // Number of adapters that sequences can choose.
  virtual std::int64_t num_adapters() const { return 0; }
  virtual void reserve(std::int64_t max_tokens, std::int64_t max_logit_rows) = 0;
  // Bytes of the scratch memory held now.
  virtual std::int64_t scratch_bytes() const = 0;
  // Writes K and V of all T tokens into the pages and logits [L, vocab] f32. Pages, logits and the
  // batch are on the stream's device, where the weights are.
  // Throws Error(kInternal) when the batch is inconsistent.
  virtual void forward(Stream& stream, const StepBatch& batch, const KvPages& kv, View logits) = 0;
  // Bytes of the weights that a step over these layers reads besides rows of the embedding, with
  // the LM head; 0: the decoder cannot leave out layers (StepBatch::layers).
  virtual std::int64_t step_weight_bytes(std::span<const std::int32_t> /*layers*/) const {
    return 0;
  }
  // Whether the work of forward() may be recorded (backend/graph.h): on a GPU it only launches
  // kernels; while scratch_bytes() is the same, their addresses and parameters depend on nothing
  // but addresses and shapes of the arguments, on `layers`, `watched`, `clusters`, `adapted` and
  // `vision`.
  virtual bool can_be_recorded() const { return false; }
};

}  // namespace caption::model
