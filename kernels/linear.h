// kernels/linear.h: the dense layer, with weights in any form of kernels/weight.h.
//   linear:             y[m, n]  = sum_k x[m, k] * weight[n, k] (+ bias[n])
//   linear_add:         y[m, n] += sum_k x[m, k] * weight[n, k] (+ bias[n])     a block's residual
//   linear_add_scaled:  y[m, n] += scale[n] * (sum_k x[m, k] * weight[n, k] (+ bias[n]))
//                       a residual with layer scale (arXiv:2103.17239)
//   linear_gelu:        y = g / 2 * (1 + erf(g / sqrt(2))), where g = linear(x)     torch nn.GELU()
//   linear_gelu_tanh:   y = g / (1 + exp(-2 * sqrt(2 / pi) * (g + 0.044715 * g^3))), where
//                       g = linear(x)                            torch nn.GELU(approximate="tanh")
//   linear_quick_gelu:  y = g / (1 + exp(-1.702 * g)), where g = linear(x)         CLIP
//   linear_silu:        y = g / (1 + exp(-g)), where g = linear(x)                  torch nn.SiLU()
//   linear_relu:        y = max(g, 0), where g = linear(x)                         torch nn.ReLU()
//   linear_swiglu:      y = g / (1 + exp(-g)) * u, where g = linear(x) with the weight `gate` and
//                       u = linear(x) with the weight `up`      SwiGLU (arXiv:2002.05202)
//
// x       [M, K] f32, on a GPU also bf16 or f16, rows may be strided
// weight  [N, K], see kernels/weight.h
// bias    [N] f32, bf16 or f16; an empty view (ConstView{}) means none
// scale   [N] f32, bf16 or f16
// y       [M, N] f32, rows may be strided; must not overlap x. linear_add() and linear_add_scaled()
//         add to y, the others write it whole, and on a GPU may write bf16 or f16.
// Sums are f32. Products are f32 unless Weight::rounds_input(): then x is rounded to bf16 (codes on
// a GPU whose tensor cores lack bf16: to f16), or to 8 bits for kInt8Row and kInt4A8 (the largest
// magnitude of a row becomes 127) and to e4m3 for kE4M3Row (448). The order of a sum depends only
// on K, the weight's form and the stream's CPU tier, so a row's result has the same bits alone and
// in any batch, with any number of threads, and whether weights are multiplied one by one or
// several in one call. Throws Error(kInternal) when shapes or dtypes disagree.
#pragma once

#include <span>

#include "backend/stream.h"
#include "kernels/weight.h"
#include "tensor/tensor.h"

namespace caption::kernels {

// A weight [N, K] with its bias [N]; the bias may be empty.
struct BiasedWeight {
  const Weight& weight;
  ConstView bias = {};
};

void linear(Stream& stream, ConstView x, const Weight& weight, ConstView bias, View y);

// One of several dense layers with the same input x.
struct LinearPart {
  const Weight& weight;
  ConstView bias;
  View y;
  ConstView scale = {};  // linear_add_scaled() only
};
// Computes linear() for each part. If all weights have the same form, number of columns per group
// and column order, it takes one pass: x is rounded once, and the threads share the work of all
// parts; otherwise one pass for each part.
void linear(Stream& stream, ConstView x, std::span<const LinearPart> parts);

void linear_add(Stream& stream, ConstView x, const Weight& weight, ConstView bias, View y);

void linear_add_scaled(Stream& stream, ConstView x, BiasedWeight weight, ConstView scale, View y);

void linear_gelu(Stream& stream, ConstView x, const Weight& weight, ConstView bias, View y);

void linear_gelu_tanh(Stream& stream, ConstView x, const Weight& weight, ConstView bias, View y);

void linear_quick_gelu(Stream& stream, ConstView x, const Weight& weight, ConstView bias, View y);

void linear_silu(Stream& stream, ConstView x, const Weight& weight, ConstView bias, View y);

void linear_relu(Stream& stream, ConstView x, const Weight& weight, ConstView bias, View y);

// The two weights must have the same form and group size, as for linear() with parts.
void linear_swiglu(Stream& stream, ConstView x, BiasedWeight gate, BiasedWeight up, View y);

enum class LinearOutput { kWrite, kAdd, kGelu, kGeluTanh, kQuickGelu, kSilu, kRelu };

namespace impl {
void linear(Cpu device, Stream& stream, ConstView x, std::span<const LinearPart> parts,
            LinearOutput output);
void linear(Cuda device, Stream& stream, ConstView x, std::span<const LinearPart> parts,
            LinearOutput output);
// Both parts write to y.
void linear_swiglu(Cpu device, Stream& stream, ConstView x, const LinearPart& gate,
                   const LinearPart& up);
void linear_swiglu(Cuda device, Stream& stream, ConstView x, const LinearPart& gate,
                   const LinearPart& up);
}  // namespace impl

}  // namespace caption::kernels
