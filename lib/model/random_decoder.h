// model/random_decoder.h: a decoder of any shape with random weights, for measuring speed without
// downloads.
#pragma once

#include <cstdint>
#include <memory>

#include "model/caption_model.h"
#include "model/decoder.h"
#include "model/model_shape.h"

namespace caption::model {

// Matrices are ~ N(0, 0.02) (a sum of four uniform numbers), norms 1, biases 0, held as `type`; the
// same for the same seed with any number of threads. The decoder is the class that runs
// checkpoints; it maps its weights from an anonymous file in memory that it owns. Weights that it
// packs are removed from that file, so that they are held once. Throws Error(kOutOfMemory) with the
// size when the system refuses that memory.
std::unique_ptr<Decoder> make_random_decoder(const TextShape& shape, WeightType type,
                                             std::uint64_t seed);

}  // namespace caption::model
