// model/internal/clip_vision_tower.h: CLIP's vision transformer up to one of its hidden states.
//   x_0     = LN_pre([class; patches * W] + positions)
//   x'_l    = x_l + out(attention(qkv(LN_1(x_l))))
//   x_{l+1} = x'_l + fc2(act(fc1(LN_2(x'_l))))
// Source: arXiv:2103.00020; transformers 4.57 modeling_clip.py. The layers after the requested
// hidden state and post_layernorm are neither loaded nor run. If the linear layers round their
// input to bf16 or 8 bits (kernels/linear.h), attention uses bf16 too.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/stream.h"
#include "model/blueprint.h"
#include "model/internal/placed_weights.h"
#include "model/internal/scratch.h"

namespace caption::model {

class ClipVisionTower {
 public:
  // Rows that an MLP processes at a time, to bound its inner activations, which are four times as
  // wide as the others. Equals 12 row blocks of the matrix product (96 rows): enough work for all
  // cores, and the weights are read seldom.
  static constexpr std::int64_t kMlpRows = 1152;

  // Runs the tower of `blueprint`; borrows `weights`, which were placed for that blueprint. After
  // spec.num_layers layers the output is hidden_states[num_layers].
  ClipVisionTower(const PlacedWeights& weights, const Blueprint& blueprint);

  const VisionSpec& spec() const { return spec_; }
  // Tokens of a frame, including the class token, which is always the first.
  std::int64_t tokens_per_frame() const { return spec_.grid() * spec_.grid() + 1; }

  // pixels [frames, 3, image_px, image_px] f32 -> [frames * tokens_per_frame(), hidden] f32, valid
  // until the next call.
  View forward(Stream& stream, ConstView pixels);

 private:
  struct Layer {
    NormWeights norm_1;
    LinearWeights q, k, v, out;
    NormWeights norm_2;
    LinearWeights fc1, fc2;
  };

  View embed(Stream& stream, ConstView pixels);
  void attend(Stream& stream, const Layer& layer, View x);
  ConstView as_key(Stream& stream, const Layer& layer, View projected, Scratch& rounded) const;
  void mlp(Stream& stream, const Layer& layer, View x);

  VisionSpec spec_;
  ConstView class_embedding_;
  const kernels::Weight& patch_embedding_;  // [hidden, 3 * patch * patch]
  ConstView positions_;
  NormWeights pre_norm_;
  std::vector<Layer> layers_;

  Scratch hidden_, normed_, q_, k_, v_;
  Scratch rounded_k_, rounded_v_;  // bf16
  Scratch wide_;                   // patch columns, then inner activations of an MLP
};

}  // namespace caption::model
