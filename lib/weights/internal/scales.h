// weights/internal/scales.h: scales of many groups at a time, in vectors of the compiler, which
// every instruction set has.
#pragma once

#include <cstdint>

#include "weights/internal/coded_source.h"

namespace caption::weights {

// Writes elements [first, first + count) of a tensor of dtype F32, BF16 or F16 as f32. Throws
// Error(kBadModel) when one is not finite.
void read_finite(const Part& part, std::int64_t first, std::int64_t count, float* to);

// For scales that the format defines as largest magnitudes, or as these divided by a constant.
// `numbers` are elements [first, first + count) of the tensor; 0, that of weights that are all 0,
// is one. Throws Error(kBadModel) that names the first negative one.
void require_magnitudes(const Part& part, std::int64_t first, std::int64_t count,
                        const float* numbers);

}  // namespace caption::weights
