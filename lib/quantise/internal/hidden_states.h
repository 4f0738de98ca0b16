// quantise/internal/hidden_states.h: the hidden states of all calibration prompts between two
// layers of a decoder, and a layer's steps over them.
//
// Memory: hidden states and outputs of attention, 4 * tokens * (hidden + heads * head_dim) bytes,
// and the intermediate results of one prompt, or of kPieceRows rows in the MLP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "backend/stream.h"
#include "base/on_work.h"
#include "model/decoder_layer.h"
#include "quantise/calibration.h"
#include "tensor/tensor.h"

namespace caption::quantise {

class HiddenStates {
 public:
  // Rows of the MLP that are computed at a time.
  static constexpr std::int64_t kPieceRows = 1024;

  // The embeddings of the prompts' tokens; `embedding` is the table [vocab, hidden]. All arguments
  // are borrowed. The steps report their work. Throws Error(kInternal) when a prompt and the spec
  // disagree.
  HiddenStates(Stream& stream, const model::DecoderSpec& spec, const Calibration& calibration,
               ConstView embedding, OnWork on_work = {});

  const model::DecoderSpec& spec() const { return spec_; }
  std::int64_t num_tokens() const { return hidden_.dim(0); }
  ConstView rows() const { return hidden_.view(); }  // [tokens, hidden], prompt after prompt
  // What the steps report to, for what the functions that see rows compute.
  const OnWork& on_work() const { return on_work_; }

  // The multiply-adds that steps report: attend() and show_attended(), add_attention(),
  // show_down_inputs(), and add_mlp().
  std::int64_t attend_work() const;
  std::int64_t o_work() const { return num_tokens() * spec_.hidden * spec_.q_dim(); }
  std::int64_t gate_up_work() const { return 2 * num_tokens() * spec_.hidden * spec_.intermediate; }
  std::int64_t mlp_work() const { return gate_up_work() * 3 / 2; }

  // Called with a matrix of consecutive rows, in the order of the tokens.
  using See = std::function<void(ConstView rows)>;
  using Layer = model::DecoderLayerViews;

  // The steps of layer `index`, in this order. A step that only shows inputs may be left out, or
  // called again with other matrices.
  void begin_layer(std::size_t index) { index_ = index; }
  // Shows RMS_1(x), the inputs of q, k and v, a prompt at a time.
  void show_attention_inputs(const Layer& layer, const See& see);
  // Computes the inputs of o.
  void attend(const Layer& layer);
  // The same, shown a prompt at a time and not kept.
  void show_attended(const Layer& layer, const See& see);
  ConstView attended() const { return attended_.view(); }  // [tokens, heads * head_dim]
  // x += o(attended)
  void add_attention(const Layer& layer);
  // Shows RMS_2(x), the inputs of gate and up.
  void show_mlp_inputs(const Layer& layer, const See& see);
  // Shows the inputs of down.
  void show_down_inputs(const Layer& layer, const See& see);
  // x += down(...), and the DeepStack rows of the layer.
  void add_mlp(const Layer& layer);

 private:
  struct Prompt {
    const CalibrationPrompt* source;
    std::int64_t first_row;
    model::PromptPositions positions;

    std::int64_t num_tokens() const { return source->num_tokens(); }
  };
  void embed(const Prompt& prompt, ConstView embedding);
  void add_deepstack();

  Stream& stream_;
  const model::DecoderSpec& spec_;
  OnWork on_work_;
  std::size_t index_ = 0;
  std::vector<Prompt> prompts_;
  Tensor hidden_, attended_;
};

}  // namespace caption::quantise
