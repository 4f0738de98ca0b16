// model/random_tower.h: a CLIP vision tower of any shape with random weights, for measuring speed
// without downloads.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/stream.h"
#include "model/caption_model.h"
#include "model/model_shape.h"
#include "tensor/tensor.h"

namespace caption::model {

// Uses the tower class of real checkpoints, without a projector. One thread at a time.
class RandomTower {
 public:
  // Weights are as in make_random_decoder(). Throws Error(kUnavailable) for a tower other than
  // CLIP's, which takes single frames of a fixed size and has one class token; Error(kOutOfMemory).
  RandomTower(const VisionShape& shape, WeightType type, std::uint64_t seed);
  ~RandomTower();
  RandomTower(const RandomTower&) = delete;
  RandomTower& operator=(const RandomTower&) = delete;

  std::int64_t weight_bytes() const;
  // pixels [frames, 3, image_px, image_px] f32 -> [frames * tower_tokens(shape), hidden] f32, valid
  // until the next call.
  ConstView encode(Stream& stream, ConstView pixels);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::model
