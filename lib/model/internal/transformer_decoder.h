// model/internal/transformer_decoder.h: Llama, Mistral, Qwen2 and Qwen3 over a paged KV cache.
//   x'  = x + o(attention(rope(norm(q(n))), rope(norm(k(n))), v(n)))    n = RMS_1(x)
//   x'' = x' + down(silu(gate(m)) * up(m))                              m = RMS_2(x')
//   logits = lm_head(RMS(x_L)) for the rows requested
// Only Qwen3 normalises every head of q and k. Attention is causal, in some layers over a sliding
// window (DecoderSpec::windows). Source: arXiv:2302.13971, arXiv:2310.06825, arXiv:2407.10671,
// arXiv:2505.09388; transformers 4.57 modeling_{llama,mistral,qwen2,qwen3}.py.
//
// Adapters that are not merged (internal/low_rank.h) add their terms to the outputs of q, k, v, o,
// gate, up, down and lm_head.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention_mass.h"
#include "kernels/norm_linear.h"
#include "kernels/paged_attention.h"
#include "model/blueprint.h"
#include "model/decoder.h"
#include "model/internal/low_rank.h"
#include "model/internal/placed_weights.h"
#include "model/internal/scratch.h"

namespace caption::model {

class TransformerDecoder final : public Decoder {
 public:
  // Runs the decoder of `blueprint` on the device of `weights`, which are borrowed and were placed
  // for that blueprint; `stream` is of that device.
  TransformerDecoder(Stream& stream, const PlacedWeights& weights, const Blueprint& blueprint);

  const DecoderSpec& spec() const override { return spec_; }
  std::int64_t num_adapters() const override { return std::ssize(adapters_.chosen); }
  void reserve(std::int64_t max_tokens, std::int64_t max_logit_rows) override;
  std::int64_t scratch_bytes() const override;
  void forward(Stream& stream, const StepBatch& batch, const KvPages& kv, View logits) override;
  std::int64_t step_weight_bytes(std::span<const std::int32_t> layers) const override;
  bool can_be_recorded() const override { return true; }

 private:
  struct Layer {
    ConstView input_norm;
    LinearWeights q, k, v, o;
    ConstView q_norm, k_norm;  // empty without a per-head norm
    ConstView post_attention_norm;
    LinearWeights gate, up, down;
    DecoderLayerIds ids;

    std::int64_t size_bytes() const;  // sum over the matrices
    // Whether one kernel may multiply by both.
    bool gates_like_up() const { return gate.weight.form().is_like(up.weight.form()); }
  };
  // The index arrays of one step, and the table of its rotations.
  struct Step;

  void check(const StepBatch& batch, const KvPages& kv, ConstView logits) const;
  View embed(Stream& stream, const StepBatch& batch);
  // Adds the vision tokens' DeepStack rows of this layer, if it has any, to x.
  void add_deepstack(Stream& stream, const StepBatch& batch, std::size_t layer, View x);
  // Rows [first, first + count) of x.
  struct RowRange {
    ConstView x;
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  // The input of dense layers, rows of x before their norm.
  kernels::RowsToNorm input_of(ConstView x, ConstView norm);
  // Writes the rows of q for these rows of x, and their k and v to the pages.
  void project(Stream& stream, const Layer& layer, const Step& step, const kernels::KvLayer& pages,
               RowRange rows, View q);
  void attend(Stream& stream, std::size_t index, const Step& step, const kernels::KvLayer& pages,
              View x);
  // Sets clusters_ for this layer.
  void choose_clusters(const StepBatch& batch, std::size_t layer);
  void watch(Stream& stream, std::size_t layer, std::span<const WatchedRows> rows, ConstView q,
             const kernels::PagedContext& context, float scale);
  void mlp(Stream& stream, const Layer& layer, const Step& step, View x);
  // Returns silu(gate(m)) * up(m), m the normalised input, with the terms of adapters; in the dtype
  // in which `down` takes it where that loses nothing.
  View gate_and_up(Stream& stream, const Layer& layer, const LowRankLayers::Rows& rows,
                   const kernels::RowsToNorm& input);

  DecoderSpec spec_;
  std::int64_t piece_rows_;           // decoder_piece_rows() of the weights' device
  const kernels::Weight& embedding_;  // with tied embeddings also the LM head
  const kernels::Weight& lm_head_;
  ConstView final_norm_;
  std::vector<Layer> layers_;
  ParameterId head_id_;
  const DecoderAdapters& adapters_;
  LowRankLayers low_rank_;
  RotaryFrequencies rotary_;  // its frequencies are on the device
  Tensor rope_axis_;          // [head_dim / 2] i32 with M-RoPE, else empty

  std::vector<const kernels::KeyClusters*> clusters_;  // one per sequence of the step, or empty
  std::vector<kernels::AttentionWatch> watches_;
  Scratch hidden_, normed_, q_, k_, v_, inner_, rope_, last_;
  Scratch up_;  // used with adapters of gate or up
};

}  // namespace caption::model
