// kernels/depthwise_conv_2d.h: a convolution that keeps the channels apart and the size of the
// grid.
//   y[f, i, j, c] = sum over u, v of x[f, i + u - r, j + v - r, c] * weight[c, 0, u, v]
// where r = (kernel size - 1) / 2, and x is 0 outside the grid. The result is that of torch
// nn.Conv2d(C, C, 2 * r + 1, padding=r, groups=C, bias=False).
//
// x       [frames, grid_h, grid_w, C] f32, dense
// weight  [C, 1, size, size] f32, bf16 or f16; size odd, at most 15
// y       the shape of x, f32, dense; must not overlap x
// Sums are f32, over u and then v, ascending: the same bits in any batch and with any number of
// threads. Throws Error(kInternal) when shapes or dtypes disagree.
#pragma once

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

void depthwise_conv_2d(Stream& stream, ConstView x, ConstView weight, View y);

namespace impl {
void depthwise_conv_2d(Cpu device, Stream& stream, ConstView x, ConstView weight, View y);
void depthwise_conv_2d(Cuda device, Stream& stream, ConstView x, ConstView weight, View y);
}  // namespace impl

}  // namespace caption::kernels
