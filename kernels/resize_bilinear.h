// kernels/resize_bilinear.h: bilinear resizing of grids of rows, as torch's interpolate(mode =
// "bilinear", align_corners = False, antialias = False).
//   y[f, i, j, c] = (1 - s) * ((1 - t) * x[f, a, b, c]  + t * x[f, a, b', c])
//                       + s * ((1 - t) * x[f, a', b, c] + t * x[f, a', b', c])
//   p = max((i + 1/2) * grid_h / out_h - 1/2, 0), a = floor(p), s = p - a, a' = min(a + 1, grid_h -
//   1); t, b, b' likewise from j and the widths
// Source: ATen aten/src/ATen/native/UpSample.h (area_pixel_compute_source_index). Positions and
// weights are f32, as there.
//
// x  [frames, grid_h, grid_w, C] f32, dense; grid_h, grid_w >= 1
// y  [frames, out_h, out_w, C] f32, dense; out_h, out_w >= 1; must not overlap x. An equal grid
//    copies.
// Throws Error(kInternal) when shapes or dtypes disagree.
#pragma once

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

void resize_bilinear(Stream& stream, ConstView x, View y);

namespace impl {
void resize_bilinear(Cpu device, Stream& stream, ConstView x, View y);
void resize_bilinear(Cuda device, Stream& stream, ConstView x, View y);
}  // namespace impl

}  // namespace caption::kernels
