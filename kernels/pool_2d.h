// kernels/pool_2d.h: pooling of patch grids over non-overlapping windows.
//   y[f, i, j, c] = mean or max over 0 <= u, v < stride of x[f, i * stride + u, j * stride + v, c]
//
// x       [frames, grid_h, grid_w, C] f32; the first axis may be strided, so that a class token
//         between the frames can be skipped
// stride  >= 1; rows and columns that do not fill a window are left out, as torch's AvgPool2d does
// y       [frames, grid_h / stride, grid_w / stride, C] f32, dense; must not overlap x
// The sum of a window is f32, row by row. Stride 1 copies.
// Throws Error(kInternal) when shapes or dtypes disagree.
#pragma once

#include <cstdint>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

enum class Pooling { kMean, kMax };

void pool_2d(Stream& stream, ConstView x, Pooling pooling, std::int64_t stride, View y);

namespace impl {
void pool_2d(Cpu device, Stream& stream, ConstView x, Pooling pooling, std::int64_t stride, View y);
void pool_2d(Cuda device, Stream& stream, ConstView x, Pooling pooling, std::int64_t stride,
             View y);
}  // namespace impl

}  // namespace caption::kernels
