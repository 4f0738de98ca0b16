// kernels/cuda/arrive.cuh: order among the blocks of a launch.
#pragma once

#include "kernels/cuda/primitives.cuh"

#ifdef __CUDACC__

namespace caption::kernels::cuda {

// Adds 1 to *counter, which other blocks may do at the same time, and returns the value before.
// What the block wrote before its last barrier happens before what a block that calls it later does
// after its next barrier. Called by one thread of a block.
CAPTION_DEVICE std::uint32_t arrive(std::uint32_t* counter) {
  __threadfence();
  const std::uint32_t before = atomic_add(counter, 1u);
  __threadfence();
  return before;
}

}  // namespace caption::kernels::cuda

#endif
