// model/internal/clip_vision_tower.h: CLIP's vision transformer up to one of its hidden states.
//   x_0     = LN_pre([class; patches * W] + positions)
//   x'_l    = x_l + out(attention(qkv(LN_1(x_l))))
//   x_{l+1} = x'_l + fc2(act(fc1(LN_2(x'_l))))
// Source: arXiv:2103.00020; transformers 4.57 modeling_clip.py. The layers after the requested
// hidden state and post_layernorm are neither loaded nor run. If the linear layers round their
// input to bf16 or 8 bits (kernels/linear.h), attention uses bf16 too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/stream.h"
#include "model/internal/config.h"
#include "model/internal/scratch.h"
#include "model/internal/weight_store.h"

namespace caption::model {

class ClipVisionTower {
 public:
  // Rows that an MLP processes at a time, to bound its inner activations, which are four times as
  // wide as the others. Equals 12 row blocks of the matrix product (96 rows): enough work for all
  // cores, and the weights are read seldom.
  static constexpr std::int64_t kMlpRows = 1152;

  // Weights are borrowed from `store` under `prefix`. After `num_layers` layers the output is
  // hidden_states[num_layers] in the terms of transformers.
  ClipVisionTower(WeightStore& store, const std::string& prefix, const ClipVisionConfig& config,
                  std::int64_t num_layers);

  const ClipVisionConfig& config() const { return config_; }
  // Tokens of a frame, including the class token, which is always the first.
  std::int64_t tokens_per_frame() const { return config_.grid() * config_.grid() + 1; }

  // pixels [frames, 3, image_px, image_px] f32 -> [frames * tokens_per_frame(), hidden] f32, valid
  // until the next call.
  View forward(Stream& stream, ConstView pixels);

 private:
  struct Norm {
    ConstView weight;
    ConstView bias;
  };
  struct Layer {
    Norm norm_1;
    LinearWeights q, k, v, out;
    Norm norm_2;
    LinearWeights fc1, fc2;
  };

  Norm require_norm(WeightStore& store, const std::string& stem) const;
  View embed(Stream& stream, ConstView pixels);
  void attend(Stream& stream, const Layer& layer, View x);
  ConstView as_key(Stream& stream, const Layer& layer, View projected, Scratch& rounded) const;
  void mlp(Stream& stream, const Layer& layer, View x);

  ClipVisionConfig config_;
  ConstView class_embedding_;
  kernels::PackedWeight patch_embedding_;  // [hidden, 3 * patch * patch]
  ConstView positions_;
  Norm pre_norm_;
  std::vector<Layer> layers_;

  Scratch hidden_, normed_, q_, k_, v_;
  Scratch rounded_k_{DType::kBF16}, rounded_v_{DType::kBF16};
  Scratch wide_;  // patch columns, then inner activations of an MLP
};

}  // namespace caption::model
