// bench/internal/cuda_tiles.h: what the launches of a dense layer need that has 16-bit weights and
// more rows than few.
#pragma once

#include <cstdint>

#include "bench/internal/cuda_codes.h"

namespace caption::bench {

// The launches of kernels/cuda/tile_gemm.cu, or of kernels/cuda/warpgroup_gemm.cu: x is normalised
// or rounded, blocks multiply, and where there are few blocks of tiles another kernel adds the
// slices of K. The operation has no name.
CudaWork launch_tiles(const CudaCard& card, std::int64_t rows, const DenseShape& layer);

}  // namespace caption::bench
