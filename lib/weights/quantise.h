// weights/quantise.h: quantisation of a matrix to 8 or 4 bits when a model is loaded.
//
// Each group of columns is quantised independently, every weight to the nearest code (RTN):
//   kInt8     groups of 128: scale = max|w| / 127, codes -127 .. 127
//   kInt8Row  as kInt8 with one scale for a whole row
//   kInt4     groups of 128: scale = (max - min) / 15, offset = min + 8 * scale
//   kNf4      groups of 64: scale = max|w|, codes of the 16 quantiles of a normal distribution
//             (arXiv:2305.14314 appendix E), chosen as bitsandbytes does: w * (1 / scale) in f32 is
//             compared with 15 midpoints, and a number equal to a midpoint gets the lower code.
//             Codes and scales equal those of bitsandbytes if the row length is a multiple of 64
//             (its blocks continue across the ends of rows), except for a group of zeros, to which
//             bitsandbytes gives the code of -1 and the scale 0.
// The codebook of a QuantisedMatrix, with which the kernels multiply, is rounded to bf16: exact for
// int4; nf4's 16 values change by at most 0.00164 (0.00034 on average over normal weights) times
// the scale. Codes are chosen before that rounding.
#pragma once

#include "tensor/matrix_format.h"
#include "tensor/quantised_matrix.h"
#include "tensor/tensor.h"

namespace caption::weights {

// rows [N, K] f32, bf16 or f16, finite. For int8 and int4 |value - w| <= scale / 2, plus the
// rounding of the offset in f32; for nf4 it is at most (0.152 + 0.00164) * scale: half the widest
// gap of neighbouring values, and the rounding of the codebook. Throws Error(kBadModel) when a
// weight is not finite; kInternal for another format.
QuantisedMatrix quantise(ConstView rows, MatrixFormat format);

}  // namespace caption::weights
