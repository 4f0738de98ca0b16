#include "kernels/vision_embed.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"
#include "tensor/dtype.h"

namespace caption::kernels::impl {

void im2col_patches(Cpu, Stream& stream, ConstView pixels, std::int64_t patch_px, View y) {
  const std::int64_t channels = pixels.dim(1);
  const std::int64_t height = pixels.dim(2);
  const std::int64_t width = pixels.dim(3);
  const std::int64_t grid_h = height / patch_px;
  const std::int64_t grid_w = width / patch_px;
  cpu::parallel_for(stream, y.dim(0), y.dim(1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t frame = r / (grid_h * grid_w);
      const std::int64_t top = r / grid_w % grid_h * patch_px;
      const std::int64_t left = r % grid_w * patch_px;
      const float* const image = pixels.as<float>() + frame * pixels.row_stride();
      float* to = y.as<float>() + r * y.row_stride();
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t u = 0; u < patch_px; ++u) {
          to = std::copy_n(image + (c * height + top + u) * width + left, patch_px, to);
        }
      }
    }
  });
}

void vit_embeddings(Cpu, Stream& stream, ConstView patches, ConstView class_embedding,
                    ConstView positions, View y) {
  const std::int64_t tokens = positions.dim(0);
  const std::int64_t dim = y.dim(1);
  const std::int64_t class_tokens = class_embedding.empty() ? 0 : 1;
  // The row of token `token` of a frame before its position is added.
  const auto write_row = [&](std::int64_t frame, std::int64_t token, float* to) {
    if (token < class_tokens) {
      dispatch_float(class_embedding.dtype(), [&](auto tag) {
        const auto* const from = class_embedding.as<decltype(tag)>();
        for (std::int64_t c = 0; c < dim; ++c) to[c] = to_float(from[c]);
      });
    } else {
      const std::int64_t patch = frame * (tokens - class_tokens) + token - class_tokens;
      std::copy_n(patches.as<float>() + patch * patches.row_stride(), dim, to);
    }
  };
  dispatch_float(positions.dtype(), [&](auto tag) {
    const auto* const position_rows = positions.as<decltype(tag)>();
    cpu::parallel_for(stream, y.dim(0), dim, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t token = r % tokens;
        const auto* const position = position_rows + token * positions.row_stride();
        float* const to = y.as<float>() + r * dim;
        write_row(r / tokens, token, to);
        for (std::int64_t c = 0; c < dim; ++c) to[c] += to_float(position[c]);
      }
    });
  });
}

}  // namespace caption::kernels::impl
