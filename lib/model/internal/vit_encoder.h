// model/internal/vit_encoder.h: turns frames of a fixed size, one by one, into vision tokens.
//   rows   = merge(tower(pixels))       without the class token, unless it is kept; PatchMerge
//   rows   = resample(rows)              frame by frame, if the projector does (FrameResampler)
//   rows   = linear_n(act(... act(linear_1(norm(rows)))))
//   tokens = resize(rows)               bilinear, if VisionSpec::resize_stride > 1
// and, if the spec says so, one learned token after those of the clip's last frame.
// Sources: transformers 4.57 modeling_llava_next_video.py (LlavaNextVideoPooler,
// LlavaNextVideoMultiModalProjector), modeling_llava_onevision.py (apply_pooling),
// modeling_internvl.py (pixel_shuffle, InternVLMultiModalProjector).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backend/stream.h"
#include "model/internal/distinct_frames.h"
#include "model/internal/frame_resampler.h"
#include "model/internal/placed_weights.h"
#include "model/internal/scratch.h"
#include "model/internal/vision_encoder.h"
#include "model/internal/vit_tower.h"

namespace caption::model {

class VitEncoder final : public VisionEncoder {
 public:
  // Runs tower and projector of `blueprint`; borrows `weights`, which were placed for that
  // blueprint. Throws Error(kBadModel) when pooling leaves no token.
  VitEncoder(const PlacedWeights& weights, const Blueprint& blueprint);

  const VisionSpec& spec() const override { return tower_.spec(); }
  std::int64_t num_tokens(const ClipShape& clip) const override {
    return num_vision_tokens(spec(), clip);
  }

  // pixels [frames, 3, image_px, image_px] f32 on the host -> [num_tokens(), out] f32 on the
  // device. Frames are processed a few at a time, so scratch memory does not grow with the clip,
  // and equal frames once; results do not depend on this.
  Tensor encode(Stream& stream, ConstView pixels) override;

 private:
  std::int64_t tokens_per_frame() const { return tokens_per_image(spec(), {}); }
  ConstView upload(Stream& stream, ConstView pixels);
  void encode_distinct(Stream& stream, ConstView pixels, const DistinctFrames& distinct,
                       View tokens);
  void encode_frames(Stream& stream, ConstView pixels, View tokens);
  void encode_pass(Stream& stream, ConstView pixels, View tokens);
  View merge(Stream& stream, View hidden, std::int64_t frames);
  void project(Stream& stream, View rows, View projected);

  VitTower tower_;
  std::optional<LinearWeights> convolution_;  // [hidden, hidden * stride * stride]
  NormWeights projector_norm_;
  std::unique_ptr<FrameResampler> resampler_;  // null: none
  std::vector<LinearWeights> projector_;       // may be empty behind a resampler
  ConstView newline_;                          // [out], empty: none
  Scratch pixels_;                             // of a few frames, where the device is not the host
  Scratch windows_;                            // rows of the convolution's input
  Scratch merged_, resized_;
  Scratch inner_[2];  // outputs of the projector's layers but the last, in turn
};

}  // namespace caption::model
