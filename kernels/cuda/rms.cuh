// kernels/cuda/rms.cuh: the factor of rms_norm().
//
// Every kernel that normalises rows adds their squares in one order, so that their bits are equal:
// a row has kNormThreads threads, whose packs of numbers alternate; a thread adds its squares in
// the order of columns, lanes add in a tree, warps in their order.
#pragma once

#include "kernels/cuda/primitives.cuh"

namespace caption::kernels::cuda {

inline constexpr int kNormThreads = 128;
inline constexpr int kNormWarps = kNormThreads / 32;

CAPTION_DEVICE float rms_factor(float squares, int dim, float eps) {
  return divide(1.0F, square_root(divide(squares, static_cast<float>(dim)) + eps));
}

}  // namespace caption::kernels::cuda
