// kernels/cuda/multiply_tiles.cuh: the kernels that multiply by tiles of 16-bit weights, by the
// number of rows of x. All of them sum in the order of kernels/cuda/tile_layout.h, so their bits
// are equal.
#pragma once

#include "kernels/cuda/dense_layer.h"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/parts.cuh"
#include "kernels/cuda/primitives.cuh"
#include "kernels/cuda/tile_layout.h"
#include "kernels/cuda/weight_forms.h"

namespace caption::kernels::cuda {

using TilesParts = Parts<const Bytes16*>;

inline TilesParts tiles_parts(const DenseLayer& layer, std::int64_t features_per_block) {
  return parts_of(layer, features_per_block, [](const Weight& weight) {
    return static_cast<const Bytes16*>(TilesForm::of(weight).tiles().begin);
  });
}

CAPTION_DEVICE void multiply_tile(BF16, FragmentC& c, const FragmentA& a, const FragmentB& b) {
  mma_bf16(c, a, b);
}
CAPTION_DEVICE void multiply_tile(F16, FragmentC& c, const FragmentA& a, const FragmentB& b) {
  mma_f16(c, a, b);
}

template <class T>
CAPTION_DEVICE std::uint32_t rounded_pair(float low, float high) {
  T first;
  T second;
  narrow(low, first);
  narrow(high, second);
  return first.bits | static_cast<std::uint32_t>(second.bits) << 16;
}

// Writes x [M, K] rounded to `dtype`, bf16 or f16, to y in device memory, whose rows are followed
// by zeros up to y_stride, a multiple of 4.
void round_rows(Stream& stream, ConstView x, DType dtype, void* y, std::int64_t y_stride);

// At most kMostFewRows rows.
void multiply_few_rows(Stream& stream, const DenseLayer& layer);

}  // namespace caption::kernels::cuda
