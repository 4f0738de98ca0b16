// kernels/convert.h: the same numbers in another floating dtype.
//   y[...] = dtype_y(x[...])
//
// x, y  [...] of one shape, rank >= 1; f32, bf16 or f16 each; the first axis may be strided
// Rounds to nearest even; overflow gives infinity, NaN stays NaN, f16 subnormals are kept.
// May alias only when the dtypes are equal. Throws Error(kInternal) when shapes disagree or a dtype
// is not floating.
#pragma once

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

void convert(Stream& stream, ConstView x, View y);

namespace impl {
void convert(Cpu device, Stream& stream, ConstView x, View y);
void convert(Cuda device, Stream& stream, ConstView x, View y);
}  // namespace impl

}  // namespace caption::kernels
