// kernels/pool_2d.h: pooling of patch grids over windows.
//   pool_2d:           y[f, i, j, c] = mean or max over 0 <= u, v < stride of
//                                      x[f, i * stride + u, j * stride + v, c]
//   adaptive_mean_2d:  y[f, i, j, c] = mean of x[f, row, column, c] over
//                                      row in [floor(i * grid_h / out_h),
//                                              ceil((i + 1) * grid_h / out_h)),
//                                      column likewise               torch AdaptiveAvgPool2d
//
// x       [frames, grid_h, grid_w, C] f32; the first axis may be strided, so that a class token
//         between the frames can be skipped
// stride  >= 1; rows and columns that do not fill a window are left out, as torch's AvgPool2d does
// y       [frames, grid_h / stride, grid_w / stride, C] f32, dense; must not overlap x
//         adaptive_mean_2d(): [frames, out_h, out_w, C] f32, dense, out_h and out_w >= 1; x is
//         dense
// The sum of a window is f32, row by row. Stride 1 copies.
// Throws Error(kInternal) when shapes or dtypes disagree.
#pragma once

#include <cstdint>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

enum class Pooling { kMean, kMax };

void pool_2d(Stream& stream, ConstView x, Pooling pooling, std::int64_t stride, View y);

void adaptive_mean_2d(Stream& stream, ConstView x, View y);

namespace impl {
void pool_2d(Cpu device, Stream& stream, ConstView x, Pooling pooling, std::int64_t stride, View y);
void pool_2d(Cuda device, Stream& stream, ConstView x, Pooling pooling, std::int64_t stride,
             View y);
void adaptive_mean_2d(Cpu device, Stream& stream, ConstView x, View y);
void adaptive_mean_2d(Cuda device, Stream& stream, ConstView x, View y);
}  // namespace impl

}  // namespace caption::kernels
