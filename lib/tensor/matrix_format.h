// tensor/matrix_format.h: the forms in which a matrix of weights is held, and their sizes.
//
//                                                                     bits per weight
//   stored       the numbers of the file: f32, bf16 or f16                  16 or 32
//   bf16, f16    rounded numbers                                                  16
//   int8         8-bit codes, an f32 scale per 128 weights of a row             8.25
//   int8_row     8-bit codes, an f32 scale per row                              8.0x
//   e4m3_row     8-bit floating-point numbers (tensor/e4m3.h), an f32 scale per row;
//                multiplied by activations of the same numbers                  8.0x
//   int4         4-bit codes, an f32 scale and an f32 offset per 128 of a row    4.5
//   int4_a8      4-bit codes, an 8-bit step and base per 128 of a row, an f32
//                scale per row; multiplied by 8-bit activations               4.13
//   nf4          4-bit codes, an f32 scale per 64 weights                        4.5
//   nf4_double   as nf4 with 8-bit scales, an f32 per 256 of the scales        4.127
//   awq          4-bit codes, an f16 scale and a 4-bit zero per 128 of a row   4.156
// A GPTQ checkpoint has the size of an AWQ one. Sources: nf4 and double quantisation
// arXiv:2305.14314 (QLoRA), awq arXiv:2306.00978 and AutoAWQ 0.2 (WQLinear_GEMM), gptq
// arXiv:2210.17323; int4_a8
// after arXiv:2405.04532 (QServe, progressive group quantisation).
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace caption {

enum class MatrixFormat {
  kStored,
  kBF16,
  kF16,
  kInt8,
  kInt8Row,
  kE4M3Row,
  kInt4,
  kInt4A8,
  kNf4,
  kNf4Double,
  kAwq,
};

// Bytes of a [rows, columns] matrix with its scales, offsets and zeros, without padding. `stored`
// is the dtype that kStored means.
std::int64_t matrix_bytes(std::int64_t rows, std::int64_t columns, MatrixFormat format,
                          DType stored = DType::kF32);

}  // namespace caption
