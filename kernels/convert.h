// kernels/convert.h: conversion between floating-point dtypes.
//   y[...] = dtype_y(x[...])
//
// x, y  [...] of one shape, rank >= 1, each f32, bf16 or f16; the first axis may be strided
// Rounds to nearest even; overflow gives infinity, NaN stays NaN, f16 subnormals are kept.
// x and y may be the same memory only when their dtypes are equal. Throws Error(kInternal) when
// shapes disagree or a dtype is not floating-point.
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
