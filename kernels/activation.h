// kernels/activation.h: element-wise functions that no dense layer applies to its own output.
//   silu:            y = x / (1 + exp(-x))                                     torch nn.SiLU()
//   add_silu:        y = s / (1 + exp(-s)), where s = x + residual
//   sigmoid_scale:   y[f, p, c] = x[f, p, c] / (1 + exp(-gate[f, c]))
// sigmoid_scale() weights the channels of a frame: the last step of squeeze-and-excitation
// (arXiv:1709.01507).
//
// x, y, residual  [rows, C] f32 of one shape, dense; y may be x. sigmoid_scale(): [frames, P, C]
// gate            [frames, C] f32, dense
// Throws Error(kInternal) when shapes or dtypes disagree.
#pragma once

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

void silu(Stream& stream, ConstView x, View y);

void add_silu(Stream& stream, ConstView x, ConstView residual, View y);

void sigmoid_scale(Stream& stream, ConstView x, ConstView gate, View y);

namespace impl {
// An empty residual is 0.
void add_silu(Cpu device, Stream& stream, ConstView x, ConstView residual, View y);
void add_silu(Cuda device, Stream& stream, ConstView x, ConstView residual, View y);
void sigmoid_scale(Cpu device, Stream& stream, ConstView x, ConstView gate, View y);
void sigmoid_scale(Cuda device, Stream& stream, ConstView x, ConstView gate, View y);
}  // namespace impl

}  // namespace caption::kernels
