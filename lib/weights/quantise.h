// weights/quantise.h: quantisation of a matrix to 8 or 4 bits when a model is loaded.
//
// Each group of columns is quantised independently, every weight to the nearest code (RTN):
//   kInt8     groups of 128: scale = max|w| / 127, codes -127 .. 127
//   kInt8Row  as kInt8 with one scale for a whole row
//   kE4M3Row  one scale for a whole row, max|w| / 448; the nearest number of 8 bits
//             (tensor/e4m3.h), ties to even
//   kInt4     groups of 128: scale = (max - min) / 15, offset = min + 8 * scale
//   kInt4A8   first as kInt8Row with the scale max|w| / 119, unrounded; then groups of 128 of those
//             numbers v, which are at most 119: v ~ step * code + base - 128, codes 0 .. 15, step
//             and base integers. The step is one of the two next to (max - min) / 15: the one with
//             less squared error in sum (after arXiv:2405.04532, progressive group quantisation)
//   kNf4      groups of 64: scale = max|w|, codes of the 16 quantiles of a normal distribution
//             (arXiv:2305.14314 appendix E), chosen as bitsandbytes does: w * (1 / scale) in f32 is
//             compared with 15 midpoints, and a number equal to a midpoint gets the lower code.
//             Codes and scales equal those of bitsandbytes if the row length is a multiple of 64
//             (its blocks continue across the ends of rows), except for a group of zeros, to which
//             bitsandbytes gives the code of -1 and the scale 0.
// The kernels multiply by the codebook rounded to bf16 (kernels/cpu/packed_weight.h).
#pragma once

#include <array>
#include <cstdint>

#include "tensor/matrix_format.h"
#include "tensor/quantised_matrix.h"
#include "tensor/tensor.h"

namespace caption::weights {

// Kernels take codes in groups of at least so many columns, or in groups of a whole row; codes of
// other groups are read as numbers.
inline constexpr std::int64_t kMinGroupColumns = 8;

// rows [N, K] f32, bf16 or f16, finite. For int8 and int4 |value - w| <= scale / 2, plus the
// rounding of the offset in f32; for e4m3 it is at most |w| / 16, or scale * 2^-10 of subnormal
// numbers, plus roundings of w / scale in f32; for nf4 it is at most 0.152 * scale: half the widest
// gap of neighbouring values. Throws Error(kBadModel) when a
// weight is not finite; kInternal for another format.
QuantisedMatrix quantise(ConstView rows, MatrixFormat format);

// The codebook of 4-bit integers: -8 .. 7.
std::array<float, 16> integer_codebook();
// The codebook of kNf4, ascending from -1 to 1. Source: arXiv:2305.14314, appendix E.
const std::array<float, 16>& nf4_codebook();
// The codebook of bitsandbytes' fp4, in the order of the codes. Source: bitsandbytes 0.50
// (bitsandbytes/functional.py: get_4bit_type).
const std::array<float, 16>& fp4_codebook();
// The codebook to which bitsandbytes rounds scales of 8 bits, ascending from -0.99 to 1. Source:
// bitsandbytes 0.50 (bitsandbytes/functional.py: create_dynamic_map).
const std::array<float, 256>& dynamic_codebook();

}  // namespace caption::weights
