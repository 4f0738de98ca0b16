// model/random_model.h: decoders and vision towers of any shape with random weights, for measuring
// speed without downloads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

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
// The matrices by which the layers `faint` end, o_proj and down_proj, are a hundredth of that, so
// that these layers nearly return their input.
std::unique_ptr<Decoder> make_random_decoder(Stream& stream, const DecoderSpec& spec,
                                             weights::WeightFormat format, std::uint64_t seed,
                                             std::span<const std::int32_t> faint = {});

// Uses the classes of real checkpoints: the tower alone where frames have a fixed size, otherwise
// the tower with its mergers. One thread at a time.
class RandomTower {
 public:
  // Weights are as in make_random_decoder(). `out` is the decoder's hidden size, for a tower that
  // takes frames of any size. Throws Error(kUnavailable) for a tower that takes several frames of a
  // fixed size at a time; Error(kOutOfMemory).
  RandomTower(Stream& stream, const VisionSpec& spec, weights::WeightFormat format,
              std::uint64_t seed, std::int64_t out = 0);
  ~RandomTower();
  RandomTower(const RandomTower&) = delete;
  RandomTower& operator=(const RandomTower&) = delete;

  const VisionSpec& spec() const;  // includes what runs of the projector
  std::int64_t weight_bytes() const;
  // pixels [frames, 3, H, W] f32 -> f32, valid until the next call: [frames * tower_tokens(spec,
  // {}), hidden], or the vision tokens where frames have any size.
  ConstView encode(Stream& stream, ConstView pixels);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::model
