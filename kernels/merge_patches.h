// kernels/merge_patches.h: the patches of each stride x stride window of a grid become one row.
//   kPatchMajor:    y[f, i, j, (u * stride + v) * C + c] = x[f, i * stride + u, j * stride + v, c]
//   kChannelMajor:  y[f, i, j, (c * stride + u) * stride + v] = the same element of x
//                                          for 0 <= u, v < stride
// Source of kPatchMajor: pixel_shuffle() of transformers 4.57 modeling_internvl.py. With
// kChannelMajor, linear() (kernels/linear.h) of the rows with a Conv2d's weight [out, C, stride,
// stride] as a matrix is the convolution whose stride equals its kernel size.
//
// x       [frames, grid_h, grid_w, C] f32; the first axis may be strided, so that a class token
//         between the frames can be skipped
// stride  >= 1; rows and columns that do not fill a window are left out, as torch's Conv2d does
// y       [frames, grid_h / stride, grid_w / stride, stride * stride * C] f32, dense; must not
//         overlap x
// Throws Error(kInternal) when shapes or dtypes disagree.
#pragma once

#include <cstdint>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

enum class MergeOrder { kPatchMajor, kChannelMajor };

void merge_patches(Stream& stream, ConstView x, std::int64_t stride, MergeOrder order, View y);

namespace impl {
void merge_patches(Cpu device, Stream& stream, ConstView x, std::int64_t stride, MergeOrder order,
                   View y);
void merge_patches(Cuda device, Stream& stream, ConstView x, std::int64_t stride, MergeOrder order,
                   View y);
}  // namespace impl

}  // namespace caption::kernels
