// bench/internal/cuda_fp8.h: what the launches of a dense layer need whose weights and activations
// are rounded to e4m3.
#pragma once

#include <cstdint>

#include "bench/internal/cuda_codes.h"

namespace caption::bench {

// The launches of kernels/cuda/fp8_few_rows.cu, or of kernels/cuda/fp8_tiles.cu, and those that
// normalise and round x before, for a layer of kE4M3Row. Its operation has no name; its products
// are m16n8k32, from sm_90 on m16n8k16 of f16.
CudaWork launch_fp8(const CudaCard& card, std::int64_t rows, const DenseShape& layer);

}  // namespace caption::bench
