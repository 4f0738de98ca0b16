// kernels/pool_2d.h: pooling of patch grids over non-overlapping windows.
//   y[f, i, j, c] = mean or max over the stride x stride window of x[f, i * stride + .., j * stride
//   + .., c]
//
// x       [frames, grid_h, grid_w, C] f32; the first axis may be strided, so a class token between
//         the frames can be stepped over
// stride  >= 1; rows and columns that do not fill a window are left out, as torch's AvgPool2d does
// y       [frames, grid_h / stride, grid_w / stride, C] f32, dense; must not overlap x
// Sums are f32, row by row through the window. Stride 1 copies.
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
