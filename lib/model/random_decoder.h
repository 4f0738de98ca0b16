// model/random_decoder.h: a decoder of any shape with random weights, so that speed can be measured
// without downloads.
#pragma once

#include <cstdint>
#include <memory>

#include "model/caption_model.h"
#include "model/decoder.h"
#include "model/model_shape.h"

namespace caption::model {

// Matrices ~ N(0, 0.02) (a sum of four uniform numbers), norms 1, biases 0, held as `type`; the
// same for the same seed, on any number of threads. The decoder is the one that runs checkpoints
// and it maps its weights as it maps theirs, from an anonymous file in memory that it owns; what
// it packs leaves that file, so that weights are held once.
// Throws Error(kOutOfMemory) with the size when the system does not give that memory.
std::unique_ptr<Decoder> make_random_decoder(const TextShape& shape, WeightType type,
                                             std::uint64_t seed);

}  // namespace caption::model
