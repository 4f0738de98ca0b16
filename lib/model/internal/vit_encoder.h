// model/internal/vit_encoder.h: turns frames of a fixed size, one by one, into vision tokens:
// tower, pooling, projector.
//   tokens = linear_2(act(linear_1(pool(tower(pixels)))))       (LLaVA-NeXT-Video pools first)
// The projector may also be a single linear layer. Source: transformers 4.57
// modeling_llava_next_video.py (LlavaNextVideoPooler, LlavaNextVideoMultiModalProjector).
#pragma once

#include <cstdint>
#include <vector>

#include "backend/stream.h"
#include "model/internal/clip_vision_tower.h"
#include "model/internal/placed_weights.h"
#include "model/internal/scratch.h"
#include "model/internal/vision_encoder.h"

namespace caption::model {

class VitEncoder final : public VisionEncoder {
 public:
  // Runs tower and projector of `blueprint`; borrows `weights`, which were placed for that
  // blueprint. Throws Error(kBadModel) when pooling leaves no token.
  VitEncoder(const PlacedWeights& weights, const Blueprint& blueprint);

  const VisionSpec& spec() const override { return tower_.spec(); }
  std::int64_t num_tokens(const ClipShape& clip) const override {
    return clip.num_frames * tokens_per_frame();
  }

  // pixels [frames, 3, image_px, image_px] f32 on the host -> [frames * tokens_per_frame(), out]
  // f32 on the device. Frames are processed a few at a time, so scratch memory does not grow with
  // the clip; results do not depend on this.
  Tensor encode(Stream& stream, ConstView pixels) override;

 private:
  std::int64_t tokens_per_frame() const;
  ConstView upload(Stream& stream, ConstView pixels);
  View select(Stream& stream, View hidden, std::int64_t frames);
  void project(Stream& stream, ConstView x, View y);

  ClipVisionTower tower_;
  std::vector<LinearWeights> projector_;  // one layer, or two with an activation between them
  Scratch pixels_;                        // of a few frames, where the device is not the host
  Scratch pooled_, projected_;
};

}  // namespace caption::model
