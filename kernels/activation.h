// kernels/activation.h: element-wise functions between the projections.
//   gelu_erf:    y = x / 2 * (1 + erf(x / sqrt(2)))            torch's nn.GELU()
//   quick_gelu:  y = x / (1 + exp(-1.702 * x))                 CLIP
//   add:         y[r, :] += x[r mod x_rows, :]                 residuals, position tables
//
// Operands are [rows, dim] f32 (x of add() also bf16 or f16); rows may be strided. y may be the
// same memory as x, but may not overlap it in part. Throws Error(kInternal) when shapes or dtypes
// disagree.
#pragma once

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

void gelu_erf(Stream& stream, ConstView x, View y);

void quick_gelu(Stream& stream, ConstView x, View y);

// x [x_rows, dim], y [rows, dim]; rows must be a multiple of x_rows, the rows of x repeat.
void add(Stream& stream, ConstView x, View y);

namespace impl {
void gelu_erf(Cpu device, Stream& stream, ConstView x, View y);
void gelu_erf(Cuda device, Stream& stream, ConstView x, View y);
void quick_gelu(Cpu device, Stream& stream, ConstView x, View y);
void quick_gelu(Cuda device, Stream& stream, ConstView x, View y);
void add(Cpu device, Stream& stream, ConstView x, View y);
void add(Cuda device, Stream& stream, ConstView x, View y);
}  // namespace impl

}  // namespace caption::kernels
