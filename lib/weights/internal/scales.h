// weights/internal/scales.h: scales and zeros of many groups at a time, in vectors of the compiler,
// which every instruction set has.
#pragma once

#include <cstdint>

#include "weights/internal/coded_source.h"

namespace caption::weights {

// Writes elements [first, first + count) of a tensor of dtype F32, BF16 or F16 as f32. Throws
// Error(kBadModel) when one is not finite.
void read_finite(const Part& part, std::int64_t first, std::int64_t count, float* to);

// The nibbles of a word that hold the zeros of eight rows in turn.
enum class ZeroOrder {
  kAscending,  // GPTQ
  kAwq,
};

// to[n] = scales[n] * (middle - zero of row n) for 8 * num_words rows, eight of which have their
// zeros in a word.
void read_offsets(const std::uint32_t* zeros, std::int64_t num_words, ZeroOrder order, float middle,
                  const float* scales, float* to);

}  // namespace caption::weights
