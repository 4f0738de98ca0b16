// kernels/vision_embed.h: the input rows of a vision tower, made from pixels.
//
// A Conv2d whose stride equals its kernel size is im2col_patches() followed by linear()
// (kernels/linear.h) with the convolution's weight [out, channels, p, p] reshaped to [out, channels
// * p * p].
// Throws Error(kInternal) when shapes or dtypes disagree.
#pragma once

#include <cstdint>

#include "backend/stream.h"
#include "tensor/tensor.h"

namespace caption::kernels {

// y[(f * grid_h + i) * grid_w + j, (c * p + u) * p + v] = pixels[f, c, i * p + u, j * p + v]
// pixels [frames, channels, H, W] f32, the first axis may be strided; p = patch_px >= 1;
// grid = floor(H / p), floor(W / p), remaining pixels are ignored ("valid" padding);
// y [frames * grid_h * grid_w, channels * p * p] f32, rows may be strided; written whole.
void im2col_patches(Stream& stream, ConstView pixels, std::int64_t patch_px, View y);

// The embeddings of a vision transformer: the class token first, if the tower has one, then the
// patches, each plus its position embedding. With t = 1 class token, or t = 0:
//   y[f * (n + t), :]         = class_embedding + positions[0, :]       only if t = 1
//   y[f * (n + t) + t + i, :] = patches[f * n + i, :] + positions[t + i, :]
// patches [frames * n, dim] f32; class_embedding [dim], empty if t = 0, and positions [n + t, dim],
// f32, bf16 or f16; y [frames * (n + t), dim] f32, dense, written whole; must not overlap patches.
void vit_embeddings(Stream& stream, ConstView patches, ConstView class_embedding,
                    ConstView positions, View y);

namespace impl {
void im2col_patches(Cpu device, Stream& stream, ConstView pixels, std::int64_t patch_px, View y);
void im2col_patches(Cuda device, Stream& stream, ConstView pixels, std::int64_t patch_px, View y);
void vit_embeddings(Cpu device, Stream& stream, ConstView patches, ConstView class_embedding,
                    ConstView positions, View y);
void vit_embeddings(Cuda device, Stream& stream, ConstView patches, ConstView class_embedding,
                    ConstView positions, View y);
}  // namespace impl

}  // namespace caption::kernels
