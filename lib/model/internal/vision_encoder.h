// model/internal/vision_encoder.h: turns the preprocessed frames of clips into vision tokens.
//
// The images of all clips are encoded in passes over the tower, a few images each (pass_rows() in
// model/vision_spec.h). A pass takes consecutive images of one or of several clips. Attention sees
// one image, and every other operation one row, so that the tokens of a clip have the same bits
// whatever else is in its passes. Equal images of a clip are encoded once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/stream.h"
#include "model/clip_shape.h"
#include "model/internal/placed_weights.h"
#include "model/vision_spec.h"
#include "tensor/tensor.h"

namespace caption::model {

// Consecutive images of one clip, and where their tokens are written.
struct ImageRun {
  // [frames, 3, H, W]: VisionSpec::frames_per_image frames for each image, or fewer for the last.
  ConstView pixels;
  View tokens;  // [images * image_tokens(), vision_width]
};

// One thread at a time: an encoder owns scratch memory.
class VisionEncoder {
 public:
  virtual ~VisionEncoder() = default;
  virtual const VisionSpec& spec() const = 0;
  // Vision tokens of a clip and of one of its images; ClipShape::frame is the size of the
  // preprocessed frames.
  std::int64_t num_tokens(const ClipShape& clip) const;
  virtual std::int64_t image_tokens(const ClipShape& clip) const = 0;
  // Bytes of the scratch memory held now, without the pixels of a device other than the host.
  virtual std::int64_t scratch_bytes() const = 0;

  // The share of a pass that a clip of these pixels [frames, 3, H, W] takes; above 1 it takes
  // several passes.
  double pass_share(const Shape& pixels) const;
  // clips[i]: [frames, 3, H, W] f32 on the host, dense, the preprocessed frames of a clip -> for
  // each clip [num_tokens(clip), DecoderSpec::vision_width()] f32 on the device, complete.
  std::vector<Tensor> encode_clips(Stream& stream, std::span<const ConstView> clips);

 protected:
  // Numbers of one vision token.
  virtual std::int64_t token_width() const = 0;
  // Called before the passes of encode_clips().
  virtual void prepare(Stream& /*stream*/, std::span<const ConstView> /*clips*/) {}
  // Encodes the images of one pass.
  virtual void encode_pass(Stream& stream, std::span<const ImageRun> runs) = 0;
  // Writes the tokens that follow those of a clip's images; rest [tokens, vision_width], not empty.
  virtual void write_rest(Stream& /*stream*/, View /*rest*/) {}
};

// Makes the encoder of `blueprint`; borrows `weights`, which were placed for that blueprint. Throws
// Error(kBadModel) when no vision token would be left.
std::unique_ptr<VisionEncoder> make_vision_encoder(const PlacedWeights& weights,
                                                   const Blueprint& blueprint);

}  // namespace caption::model
