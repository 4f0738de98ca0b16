// model/decoder_layer.h: one layer of a decoder over whole prompts, step by step, with weights that
// the caller gives for every step.
//
// The calibration of quantised checkpoints looks at the inputs of a layer's matrices and tries
// other matrices in their place, with the weights of one layer in memory. The formulas and the
// kernels are those of TransformerDecoder (internal/transformer_decoder.h); K and V are f32.
// Products and sums are f32 and weights of bf16 and f16 are widened exactly, so on the CPU the
// results are those of TransformerDecoder with WeightFormat::kF32 and pages of f32, bit for bit.
//
// Matrices are [out, in] f32, bf16 or f16, biases [out] or empty, activations f32, all on the host.
// A prompt of T tokens has the rows [T, hidden].
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backend/stream.h"
#include "base/on_work.h"
#include "kernels/linear.h"
#include "model/decoder.h"
#include "model/rope.h"
#include "tensor/tensor.h"

namespace caption::model {

// A matrix and its bias.
struct DenseView {
  ConstView weight;
  ConstView bias;
};

struct DecoderLayerViews {
  ConstView input_norm;
  DenseView q, k, v, o;
  ConstView q_norm, k_norm;  // empty without a per-head norm
  ConstView post_attention_norm;
  DenseView gate, up, down;
};

// Rows of a product or an attention between which the work is reported.
inline constexpr std::int64_t kRowsOfPart = 256;

// y = x weight^T + bias, and y += the same. x [T, in], y [T, out].
void apply_dense(Stream& stream, const DenseView& layer, ConstView x, View y,
                 const OnWork& on_work = {});
void add_dense(Stream& stream, const DenseView& layer, ConstView x, View y,
               const OnWork& on_work = {});

// The angles of a prompt's rotary embedding. Immutable.
class PromptPositions {
 public:
  // `positions` [T], or [3, T] for a decoder with M-RoPE.
  PromptPositions(Stream& stream, const DecoderSpec& spec, std::span<const std::int32_t> positions);
  ConstView table() const { return table_.view(); }  // [T, head_dim]
  std::int64_t num_tokens() const { return table_.dim(0); }

 private:
  Tensor table_;
};

// Layer `index` of a decoder. For one thread at a time; the stream and the spec are borrowed, and
// the stream's device is the host. All throw Error(kInternal) when shapes disagree.
class DecoderLayer {
 public:
  DecoderLayer(Stream& stream, const DecoderSpec& spec, std::size_t index, OnWork on_work = {})
      : stream_(stream), spec_(spec), index_(index), on_work_(std::move(on_work)) {}

  // y = RMS_1(x), the input of q, k and v. x, y [T, hidden].
  void attention_input(const DecoderLayerViews& layer, ConstView x, View y) const;
  // y [T, heads * head_dim], the input of o: causal attention of the prompt's tokens, whose
  // normalised rows are `normed`.
  void attend(const DecoderLayerViews& layer, const PromptPositions& positions, ConstView normed,
              View y) const;
  // The multiply-adds that attend() reports for a prompt; those beyond a window count, too.
  static std::int64_t attend_work(const DecoderSpec& spec, std::int64_t tokens) {
    return tokens * spec.hidden * (spec.q_dim() + 2 * spec.kv_dim()) +
           tokens * tokens * spec.q_dim();
  }
  // y = RMS_2(x), the input of gate and up.
  void mlp_input(const DecoderLayerViews& layer, ConstView x, View y) const;
  // y = silu(gate(normed)) * up(normed) [T, intermediate], the input of down.
  void gate_and_up(const DecoderLayerViews& layer, ConstView normed, View y) const;

 private:
  struct Prompt {
    ConstView q;  // [T, heads, head_dim]
    ConstView k_pages, v_pages;
  };
  void attend_rows(const Prompt& prompt, std::int64_t first, std::int64_t count, View y) const;

  Stream& stream_;
  const DecoderSpec& spec_;
  std::size_t index_;
  OnWork on_work_;
};

}  // namespace caption::model
