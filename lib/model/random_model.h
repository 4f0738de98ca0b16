// model/random_model.h: decoders and CLIP towers of any shape with random weights, for measuring
// speed without downloads.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/stream.h"
#include "model/decoder.h"
#include "model/vision_spec.h"
#include "tensor/tensor.h"
#include "weights/format.h"

namespace caption::model {

// Weights are placed on the stream's device, with its threads, before the functions return.
// Matrices are ~ N(0, 0.02)
// (weights/random_source.h), norms 1, biases 0, held in `format`; the same for the same seed with
// any number of threads. The decoder is the class that runs checkpoints. The source of a packed
// matrix is freed after packing, so that weights are held once. Throws Error(kOutOfMemory) with the
// size when the system refuses that memory.
std::unique_ptr<Decoder> make_random_decoder(Stream& stream, const DecoderSpec& spec,
                                             weights::WeightFormat format, std::uint64_t seed);

// Uses the tower class of real checkpoints, without a projector. One thread at a time.
class RandomTower {
 public:
  // Weights are as in make_random_decoder(). Throws Error(kUnavailable) for a tower other than
  // CLIP's, which takes single frames of a fixed size and has one class token; Error(kOutOfMemory).
  RandomTower(Stream& stream, const VisionSpec& spec, weights::WeightFormat format,
              std::uint64_t seed);
  ~RandomTower();
  RandomTower(const RandomTower&) = delete;
  RandomTower& operator=(const RandomTower&) = delete;

  std::int64_t weight_bytes() const;
  // pixels [frames, 3, image_px, image_px] f32 -> [frames * tower_tokens(spec, {}), hidden] f32,
  // valid until the next call.
  ConstView encode(Stream& stream, ConstView pixels);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::model
