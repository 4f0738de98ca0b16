// weights/internal/fp8_tensor.h: a weight of 8-bit floating-point numbers and scales.
#pragma once

#include <memory>

#include "weights/internal/coded_source.h"
#include "weights/internal/scale_grid.h"

namespace caption::weights {

// Returns <module>.weight F8_E4M3 [N, K] times its scales: decode() returns bf16, each product
// computed in f32 and rounded once. Its numbers and scales are e4m3().
// `scales` is a part of `module`; a block of 0 rows or columns is as large as the matrix. Throws
// Error(kBadModel).
std::unique_ptr<CodedTensor> make_fp8_tensor(Module& module, const Part& scales, ScaleBlock block);

}  // namespace caption::weights
