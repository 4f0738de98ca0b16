// bench/internal/cuda_codes.h: what the launches of a dense layer need whose weights are codes of 8
// or 4 bits in groups of columns.
#pragma once

#include <cstdint>

#include "bench/cuda_prediction.h"
#include "model/vision_spec.h"
#include "tensor/matrix_format.h"

namespace caption::bench {

// A dense layer: `matrix` has the features of all its parts, `operands` is 2 for SwiGLU.
struct DenseShape {
  model::LinearSpec matrix;
  int operands = 1;
  bool has_norm = false;  // whether the input is normalised first
  MatrixFormat format = MatrixFormat::kBF16;
  // With 16-bit weights: whether the input has 16 bits, too; otherwise it is f32.
  bool takes_rounded = false;
  double output_bytes = 4;  // bytes of a number of the output
};

// Whether the GPU holds matrices of the format as codes whose products are not integers.
bool has_codes(MatrixFormat format);

// The launches of kernels/cuda/multiply_codes.cu, or of kernels/cuda/code_tiles.cu, and those that
// normalise and round x before, for a layer of such a format. Its operation has no name.
CudaWork launch_codes(const CudaCard& card, std::int64_t rows, const DenseShape& layer);

}  // namespace caption::bench
