// tests/support/cuda/warp_product.h: a product of a warp, m16n8k16 of 16-bit numbers.
#pragma once

#include "kernels/cuda/primitives.cuh"
#include "tests/support/cuda/tensor_core.h"

namespace caption::cuda_emulator {

// The arguments of a lane.
struct MmaArguments {
  const kernels::cuda::FragmentA* a;
  const kernels::cuda::FragmentB* b;
  kernels::cuda::FragmentC* c;
};

// Collects the fragments of 32 lanes, each of which passes MmaArguments, multiplies, and gives each
// lane its sums.
void multiply_warp(HalfType type, void* const* lanes);

}  // namespace caption::cuda_emulator
