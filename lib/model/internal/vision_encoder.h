// model/internal/vision_encoder.h: turns frames into vision tokens by tower, pooling and projector.
//   tokens = linear_2(act(linear_1(pool(tower(pixels)))))       (LLaVA-NeXT-Video pools first)
// The projector may also be a single linear layer. Source: transformers 4.57
// modeling_llava_next_video.py (LlavaNextVideoPooler, LlavaNextVideoMultiModalProjector).
#pragma once

#include <cstdint>
#include <optional>

#include "backend/stream.h"
#include "kernels/pool_2d.h"
#include "model/internal/clip_vision_tower.h"
#include "model/internal/scratch.h"
#include "model/internal/weight_store.h"

namespace caption::model {

// One dense layer, or two with the activation between them.
struct Projector {
  LinearWeights linear_1;
  std::optional<LinearWeights> linear_2;
  Activation activation = Activation::kGelu;

  std::int64_t out_dim() const { return (linear_2 ? *linear_2 : linear_1).weight.num_features(); }
};

// Which tokens of a frame the projector gets.
struct TokenSelection {
  enum class ClassToken { kDrop, kKeep };
  ClassToken class_token = ClassToken::kDrop;
  kernels::Pooling pooling = kernels::Pooling::kMean;
  std::int64_t pool_stride = 1;  // must be 1 with kKeep
};

class VisionEncoder {
 public:
  // Throws Error(kBadModel) when the selection leaves no token.
  VisionEncoder(ClipVisionTower tower, const TokenSelection& selection, Projector projector);

  std::int64_t tokens_per_frame() const;
  const ClipVisionConfig& config() const { return tower_.config(); }

  // pixels [frames, 3, image_px, image_px] f32 -> [frames * tokens_per_frame(), out] f32. Frames
  // are processed a few at a time, so scratch memory does not grow with the clip; results do not
  // depend on this.
  Tensor encode(Stream& stream, ConstView pixels);

 private:
  View select(Stream& stream, View hidden, std::int64_t frames);
  void project(Stream& stream, ConstView x, View y);

  ClipVisionTower tower_;
  TokenSelection selection_;
  Projector projector_;
  Scratch pooled_, projected_;
};

}  // namespace caption::model
