// kernels/norm.h: normalisation over the last axis.
//   rms_norm:    y = x / sqrt(mean(x^2) + eps) * weight                      (arXiv:1910.07467)
//   layer_norm:  y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias
//                                                                            (arXiv:1607.06450)
//
// x, y          [..., dim] f32, rank 2 or 3, one shape; the first axis may be strided; y may be x.
//               A per-head norm is a norm of [T, heads, head_dim]. On a GPU y may be bf16 or f16.
// weight, bias  [dim] f32, bf16 or f16
// eps           > 0, from the model's config
// Sums are 16 interleaved partial sums in f32, then a tree. Their order depends on dim only, so a
// row's result has the same bits in any batch. The variance is computed around the mean in a second
// pass.
// Throws Error(kInternal) when shapes or dtypes disagree.
#pragma once

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

void rms_norm(Stream& stream, ConstView x, ConstView weight, float eps, View y);

void layer_norm(Stream& stream, ConstView x, ConstView weight, ConstView bias, float eps, View y);

struct NormInput {
  ConstView x;
  ConstView weight;
  ConstView bias = {};  // layer_norm only
  float eps = 0;
};

namespace impl {
void rms_norm(Cpu device, Stream& stream, const NormInput& input, View y);
void rms_norm(Cuda device, Stream& stream, const NormInput& input, View y);
void layer_norm(Cpu device, Stream& stream, const NormInput& input, View y);
void layer_norm(Cuda device, Stream& stream, const NormInput& input, View y);
}  // namespace impl

}  // namespace caption::kernels
