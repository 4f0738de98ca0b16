// model/internal/clip_vision_tower.h: CLIP's vision transformer up to one of its hidden states.
//   x_0     = LN_pre([class; patches * W] + positions)
//   x'_l    = x_l + out(attention(qkv(LN_1(x_l))))
//   x_{l+1} = x'_l + fc2(act(fc1(LN_2(x'_l))))
// Source: arXiv:2103.00020; transformers 4.57 modeling_clip.py; models.md §1.3. The layers after
// the wanted hidden state and post_layernorm are neither loaded nor run.
// Where the layers round their input to bf16 or below (kernels/linear.h), attention does too.
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
  // Rows that go through the two layers of an MLP at once: its inner activations are four times as
  // wide as the rest. Twelve of the matrix product's blocks of rows, so that all cores have their
  // share and the weights are not read again too often.
  static constexpr std::int64_t kMlpRows = 1152;

  // Weights are borrowed from `store` under `prefix`. After `num_layers` layers the output is
  // hidden_states[num_layers].
  ClipVisionTower(WeightStore& store, const std::string& prefix, const ClipVisionConfig& config,
                  std::int64_t num_layers);

  const ClipVisionConfig& config() const { return config_; }
  // Tokens of a frame, the class token (always the first) included.
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
  Scratch wide_;  // columns of patches, then inner activations of an MLP
};

}  // namespace caption::model
