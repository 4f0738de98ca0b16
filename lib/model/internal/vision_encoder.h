// model/internal/vision_encoder.h: turns the preprocessed frames of a clip into vision tokens.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/stream.h"
#include "model/clip_shape.h"
#include "model/internal/placed_weights.h"
#include "model/vision_spec.h"
#include "tensor/tensor.h"

namespace caption::model {

// One thread at a time: an encoder owns scratch memory.
class VisionEncoder {
 public:
  virtual ~VisionEncoder() = default;
  virtual const VisionSpec& spec() const = 0;
  // Vision tokens of a clip; ClipShape::frame is the size of the preprocessed frames.
  virtual std::int64_t num_tokens(const ClipShape& clip) const = 0;
  // pixels [frames, 3, H, W] f32 on the host, the preprocessed frames of one clip ->
  // [num_tokens(clip), DecoderSpec::vision_width()] f32 on the device.
  virtual Tensor encode(Stream& stream, ConstView pixels) = 0;
};

// Makes the encoder of `blueprint`; borrows `weights`, which were placed for that blueprint. Throws
// Error(kBadModel) when no vision token would be left.
std::unique_ptr<VisionEncoder> make_vision_encoder(const PlacedWeights& weights,
                                                   const Blueprint& blueprint);

}  // namespace caption::model
