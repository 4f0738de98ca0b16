// tests/cuda/small_decoder.h: the shape of decoders whose steps take milliseconds on the emulated
// GPU.
#pragma once

#include <cstdint>

#include "model/decoder.h"

namespace caption::testing {

// Two heads of 16 dimensions with one key head, 48 tokens, 512 positions.
inline model::DecoderSpec small_decoder(std::int64_t num_layers, std::int64_t hidden = 32,
                                        std::int64_t intermediate = 32) {
  return {.num_layers = num_layers,
          .hidden = hidden,
          .intermediate = intermediate,
          .num_heads = 2,
          .num_kv_heads = 1,
          .head_dim = 16,
          .vocab = 48,
          .max_positions = 512,
          .qk_norm = true};
}

}  // namespace caption::testing
