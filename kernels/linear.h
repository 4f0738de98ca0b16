// kernels/linear.h: the dense layer, weights in the layouts W16, W8, W4 and W4-LUT (design.md §6).
//   linear:             y[m, n]  = sum_k x[m, k] * weight[n, k] (+ bias[n])
//   linear_add:         y[m, n] += sum_k x[m, k] * weight[n, k] (+ bias[n])     a block's residual
//   linear_gelu, linear_quick_gelu:  those of kernels/activation.h of linear's result, in one pass
//
// x       [M, K] f32, rows may be strided
// weight  [N, K], see kernels/packed_weight.h; as rows f32, bf16 or f16, which may be strided
// bias    [N] f32, bf16 or f16; an empty view (ConstView{}) means none
// y       [M, N] f32, rows may be strided; must not overlap x. linear writes it whole.
// Sums are f32; so are products, unless the weight is packed in panels: those take x rounded to
// bf16, or to 8 bits (kPanels8A8: a row's largest magnitude is 127 steps). The order of a sum
// depends on K, the layout and the stream's CPU tier alone, so a row's result has the same bits
// alone and in any batch, with any number of threads. Throws Error(kInternal) when shapes or dtypes
// disagree.
#pragma once

#include "backend/stream.h"
#include "kernels/packed_weight.h"
#include "tensor/tensor.h"

namespace caption::kernels {

void linear(Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias, View y);

void linear_add(Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias, View y);

void linear_gelu(Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias, View y);

void linear_quick_gelu(Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias,
                       View y);

enum class LinearOutput { kWrite, kAdd, kGelu, kQuickGelu };

namespace impl {
void linear(Cpu device, Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias,
            LinearOutput output, View y);
void linear(Cuda device, Stream& stream, ConstView x, const PackedWeight& weight, ConstView bias,
            LinearOutput output, View y);
}  // namespace impl

}  // namespace caption::kernels
