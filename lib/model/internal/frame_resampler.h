// model/internal/frame_resampler.h: the part of a projector that turns the rows of a frame into
// another number of rows.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/stream.h"
#include "model/blueprint.h"
#include "model/internal/placed_weights.h"

namespace caption::model {

// One thread at a time: it owns scratch memory.
class FrameResampler {
 public:
  virtual ~FrameResampler() = default;
  // rows [frames * rows per frame, columns] f32, dense -> [frames * resampled rows, width] f32,
  // valid until the next call. A frame's result has the same bits alone and with others.
  virtual View forward(Stream& stream, ConstView rows, std::int64_t frames) = 0;
  virtual std::int64_t scratch_bytes() const = 0;  // held now
};

// Makes the resampler of `blueprint`, or none; borrows `weights`.
std::unique_ptr<FrameResampler> make_frame_resampler(const PlacedWeights& weights,
                                                     const Blueprint& blueprint);

}  // namespace caption::model
