// bench/internal/cuda_integers.h: what the launches of a dense layer need whose activations are
// rounded to 8 bits.
#pragma once

#include <cstdint>

#include "bench/internal/cuda_codes.h"

namespace caption::bench {

// Whether the products with matrices of the format are integers.
bool has_integer_products(MatrixFormat format);

// The launches of kernels/cuda/multiply_integers.cu, or of kernels/cuda/integer_tiles.cu, and those
// that normalise and round x before, for a layer of such a format. Its operation has no name, its
// products are m16n8k32.
CudaWork launch_integers(const CudaCard& card, std::int64_t rows, const DenseShape& layer);

}  // namespace caption::bench
