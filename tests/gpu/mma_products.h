// tests/gpu/mma_products.h: products of random matrices by mma.sync, one per warp, for comparing a
// GPU's tensor cores with their model (tests/support/cuda/tensor_core.h).
#pragma once

#include <cstdint>

#include "backend/stream.h"

namespace caption::testing {

// A lane's part of a product's factors, and of the sums that the product is added to: the fragments
// of kernels/cuda/primitives.cuh.
struct LaneOperands {
  std::uint32_t a[4];
  std::uint32_t b[2];
  float c[4];
};

// Adds a * b to c, of `count` products, in place: operands [count][32] in the stream's device
// memory. Products of f16 or, else, bf16.
void multiply_fragments(Stream& stream, LaneOperands* operands, std::int64_t count, bool is_f16);

}  // namespace caption::testing
