// model/internal/vit_tower.h: a vision transformer of fixed-size frames (CLIP, SigLIP, InternViT)
// up to one of its hidden states.
//   x_0     = norm_pre([class; patches * W + b] + positions)
//   x'_l    = x_l + scale_1 * out(attention(norm_q(q), norm_k(k), v)),  q, k, v = qkv(norm_1(x_l))
//   x_{l+1} = x'_l + scale_2 * fc2(act(fc1(norm_2(x'_l))))
// VitSpec says which of class token, biases, norms and scales a tower has.
// Sources: arXiv:2103.00020, arXiv:2303.15343, arXiv:2312.14238; transformers 4.57
// modeling_{clip,siglip,internvl}.py. The layers after the requested hidden state and the norm
// after the last layer are neither loaded nor run. Several hidden states may be concatenated
// (VisionSpec::feature_layers). If the linear layers round their input to bf16
// or 8 bits (kernels/linear.h), attention uses bf16 too.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/stream.h"
#include "model/blueprint.h"
#include "model/internal/placed_weights.h"
#include "model/internal/scratch.h"

namespace caption::model {

class VitTower {
 public:
  // Runs the tower of `blueprint`; borrows `weights`, which were placed for that blueprint. After
  // spec.num_layers layers the output is hidden_states[num_layers].
  VitTower(const PlacedWeights& weights, const Blueprint& blueprint);

  const VisionSpec& spec() const { return spec_; }
  // Tokens of a frame, including the class token, which is the first if there is one.
  std::int64_t tokens_per_frame() const { return spec_.grid() * spec_.grid() + spec_.class_tokens; }

  // pixels: arrays [frames, 3, image_px, image_px] f32 on the host or the device -> [all frames *
  // tokens_per_frame(), feature_columns()] f32, in order, valid until the next call.
  View forward(Stream& stream, std::span<const ConstView> pixels);
  std::int64_t scratch_bytes() const;  // held now, without pixels_

 private:
  struct Layer {
    NormWeights norm_1;
    LinearWeights q, k, v, out;
    ConstView q_norm, k_norm;  // empty: none
    ConstView scale_1;         // empty: 1
    NormWeights norm_2;
    LinearWeights fc1, fc2;
    ConstView scale_2;
  };

  View embed(Stream& stream, std::span<const ConstView> pixels);
  ConstView upload(Stream& stream, ConstView pixels);
  void keep_features(Stream& stream, std::int64_t hidden_state, ConstView x, View features) const;
  void normalise(Stream& stream, ConstView x, const NormWeights& norm, View y) const;
  void attend(Stream& stream, const Layer& layer, View x);
  void mlp(Stream& stream, const Layer& layer, View x);

  VisionSpec spec_;
  ConstView class_embedding_;      // [hidden], empty: no class token
  LinearWeights patch_embedding_;  // [hidden, 3 * patch * patch]
  ConstView positions_;            // [num_positions, hidden]
  NormWeights pre_norm_;
  std::vector<Layer> layers_;

  Scratch pixels_;  // pixels of a few frames, where the device is not the host
  Scratch hidden_, normed_, q_, k_, v_;
  Scratch rounded_k_, rounded_v_;  // bf16 or f16
  Scratch features_;               // hidden states side by side, if there are several
  Scratch wide_;                   // patch columns, then inner activations of an MLP
};

}  // namespace caption::model
