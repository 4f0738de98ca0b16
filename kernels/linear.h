// kernels/linear.h: the dense layer, weights in the layouts W16, W8, W4 and W4-LUT (design.md §6).
//   linear:             y[m, n]  = sum_k x[m, k] * weight[n, k] (+ bias[n])
//   linear_add:         y[m, n] += sum_k x[m, k] * weight[n, k] (+ bias[n])     a block's residual
//   linear_gelu, linear_quick_gelu:  those of kernels/activation.h of linear's result, in one pass
//   linear_swiglu:      y = g / (1 + exp(-g)) * u, linear's results g with the weight `gate` and u
//                       with `up`                              SwiGLU (arXiv:2002.05202)
//
// x       [M, K] f32, rows may be strided
// weight  [N, K], see kernels/packed_weight.h; as rows f32, bf16 or f16, which may be strided
// bias    [N] f32, bf16 or f16; an empty view (ConstView{}) means none
// y       [M, N] f32, rows may be strided; must not overlap x. Written whole, but for linear_add.
// Sums are f32; so are products, unless the weight is packed in panels: those take x rounded to
// bf16, or to 8 bits (kPanels8A8: a row's largest magnitude is 127 steps). The order of a sum
// depends on K, the layout and the stream's CPU tier alone, so a row's result has the same bits
// alone and in any batch, with any number of threads, with one weight and with several. Throws
// Error(kInternal) when shapes or dtypes disagree.
#pragma once

#include <span>

#include "backend/stream.h"
#include "kernels/packed_weight.h"
#include "tensor/tensor.h"

namespace caption::kernels {

void linear(Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias, View y);

// One of several layers of the same x.
struct LinearPart {
  const PackedWeight& weight;
  ConstView bias;
  View y;
};
// linear of each part, in one pass: x is rounded once, and the threads share the work of all parts.
// The weights are of one layout, and of one number of columns to a group.
void linear(Stream& stream, ConstView x, std::span<const LinearPart> parts);

void linear_add(Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias, View y);

void linear_gelu(Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias, View y);

void linear_quick_gelu(Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias,
                       View y);

// Weights as linear's parts.
void linear_swiglu(Stream& stream, ConstView x, const PackedWeight& gate, ConstView gate_bias,
                   const PackedWeight& up, ConstView up_bias, View y);

enum class LinearOutput { kWrite, kAdd, kGelu, kQuickGelu };

namespace impl {
void linear(Cpu device, Stream& stream, ConstView x, std::span<const LinearPart> parts,
            LinearOutput output);
void linear(Cuda device, Stream& stream, ConstView x, std::span<const LinearPart> parts,
            LinearOutput output);
// Both parts have y for theirs.
void linear_swiglu(Cpu device, Stream& stream, ConstView x, const LinearPart& gate,
                   const LinearPart& up);
void linear_swiglu(Cuda device, Stream& stream, ConstView x, const LinearPart& gate,
                   const LinearPart& up);
}  // namespace impl

}  // namespace caption::kernels
