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
#include <span>
#include <vector>

#include "backend/stream.h"
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
  std::int64_t image_tokens(const ClipShape& clip) const override {
    return tokens_per_image(spec(), clip);
  }
  std::int64_t scratch_bytes() const override;

 private:
  std::int64_t token_width() const override { return spec().token_columns(); }
  void encode_pass(Stream& stream, std::span<const ImageRun> runs) override;
  void write_rest(Stream& stream, View rest) override;
  View merge(Stream& stream, View hidden, std::int64_t frames);
  void project(Stream& stream, View rows, std::span<const ImageRun> runs);
  void write_tokens(Stream& stream, ConstView rows, const ImageRun& run) const;
  void resize(Stream& stream, ConstView rows, const ImageRun& run) const;

  VitTower tower_;
  std::optional<LinearWeights> convolution_;  // [hidden, hidden * stride * stride]
  NormWeights projector_norm_;
  std::unique_ptr<FrameResampler> resampler_;  // null: none
  std::vector<LinearWeights> projector_;       // may be empty behind a resampler
  ConstView newline_;                          // [out], empty: none
  Scratch windows_;                            // rows of the convolution's input
  Scratch merged_, resized_;
  Scratch inner_[2];  // outputs of the projector's layers but the last, in turn
};

}  // namespace caption::model
