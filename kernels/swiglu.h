// kernels/swiglu.h: the activation of a SwiGLU MLP between separate dense layers.
//   y[m, n] = g / (1 + exp(-g)) * up[m, n], where g = gate[m, n]      SwiGLU (arXiv:2002.05202)
//
// gate  [M, N] f32, rows may be strided
// up    [M, N] f32, rows may be strided
// y     [M, N] f32, rows may be strided; may be gate or up
// linear() for gate and up followed by swiglu() gives the bits of linear_swiglu()
// (kernels/linear.h) on the CPU. Throws Error(kInternal) when shapes or dtypes disagree.
#pragma once

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

void swiglu(Stream& stream, ConstView gate, ConstView up, View y);

namespace impl {
void swiglu(Cpu device, Stream& stream, ConstView gate, ConstView up, View y);
void swiglu(Cuda device, Stream& stream, ConstView gate, ConstView up, View y);
}  // namespace impl

}  // namespace caption::kernels
