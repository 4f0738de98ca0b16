// weights/quantise.h: rounding a matrix to 8 or 4 bits as it is loaded.
//
// Each group of columns is rounded on its own, to the nearest code (RTN):
//   kInt8     groups of 128: scale = max|w| / 127, codes -127 .. 127
//   kInt8Row  the same with one scale for a whole row
//   kInt4     groups of 128: scale = (max - min) / 15, offset = min + 8 * scale
//   kNf4      groups of 64: scale = max|w|, codes of the 16 quantiles of a normal distribution
//             (arXiv:2305.14314 appendix E), chosen as bitsandbytes chooses them: by its 15
//             midpoints in f32, of w * (1 / scale), a number at a midpoint going down. Codes and
//             scales are bitsandbytes' own where a row is a multiple of 64 long (its blocks run on
//             over the ends of rows), except that it gives a group of zeros the code of -1 times
//             the scale 0.
// A QuantisedMatrix's codebook, which the kernels multiply with, is rounded to bf16: exact for
// int4; nf4's 16 values are off by at most 0.00164 (0.00034 on average over normal weights) times
// the scale. Codes are chosen before that rounding.
#pragma once

#include "tensor/quantised_matrix.h"
#include "tensor/tensor.h"

namespace caption::weights {

enum class QuantisedFormat { kInt8, kInt8Row, kInt4, kNf4 };

// rows [N, K] f32, bf16 or f16, finite. |value - w| <= scale / 2 for int8 and int4 (and the
// rounding of offset in f32); for nf4 half the gap of two neighbouring values, at most 0.152, and
// 0.00164, times the scale.
// Throws Error(kBadModel) when a weight is not finite.
QuantisedMatrix quantise(ConstView rows, QuantisedFormat format);

// What quantise() makes of an [N, K] matrix, without making it.
std::int64_t quantised_bytes(std::int64_t num_rows, std::int64_t num_columns,
                             QuantisedFormat format);

}  // namespace caption::weights
