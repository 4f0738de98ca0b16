// kernels/cuda/reduce.cuh: sums and maxima over the lanes of a warp and the threads of a block. The
// order of a sum depends on the number of threads only.
#pragma once

#include "kernels/cuda/primitives.cuh"

namespace caption::kernels::cuda {

CAPTION_DEVICE float sum_of_warp(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x += shuffle_xor(x, mask);
  return x;
}

// `sums` is shared memory that no thread accesses otherwise before the block's next barrier but
// one.
template <int kWarps>
CAPTION_DEVICE float sum_of_block(float (&sums)[kWarps], float x) {
  x = sum_of_warp(x);
  if (lane_index() == 0) sums[warp_index()] = x;
  sync_block();
  float sum = sums[0];
  for (int warp = 1; warp < kWarps; ++warp) sum += sums[warp];
  return sum;
}

}  // namespace caption::kernels::cuda
