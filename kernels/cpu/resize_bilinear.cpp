#include "kernels/resize_bilinear.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"

namespace caption::kernels::impl {
namespace {

// The two elements of an axis between which an output element lies, and the second one's weight.
struct Neighbours {
  std::int64_t first;
  std::int64_t second;
  float weight;
};

Neighbours neighbours_of(std::int64_t out, std::int64_t out_size, std::int64_t in_size) {
  const float scale = static_cast<float>(in_size) / static_cast<float>(out_size);
  const float position = std::max(scale * (static_cast<float>(out) + 0.5F) - 0.5F, 0.0F);
  const auto first = std::min(static_cast<std::int64_t>(position), in_size - 1);
  return {.first = first,
          .second = std::min(first + 1, in_size - 1),
          .weight = std::clamp(position - static_cast<float>(first), 0.0F, 1.0F)};
}

}  // namespace

void resize_bilinear(Cpu, Stream& stream, ConstView x, View y) {
  const std::int64_t grid_h = x.dim(1);
  const std::int64_t grid_w = x.dim(2);
  const std::int64_t channels = x.dim(3);
  const std::int64_t out_h = y.dim(1);
  const std::int64_t out_w = y.dim(2);
  const auto resize_row = [&](std::int64_t r) {
    const Neighbours rows = neighbours_of(r % out_h, out_h, grid_h);
    const float* const grid = x.as<float>() + r / out_h * x.row_stride();
    for (std::int64_t j = 0; j < out_w; ++j) {
      const Neighbours columns = neighbours_of(j, out_w, grid_w);
      const auto patch = [&](std::int64_t row, std::int64_t column) {
        return grid + (row * grid_w + column) * channels;
      };
      const float* const top_left = patch(rows.first, columns.first);
      const float* const top_right = patch(rows.first, columns.second);
      const float* const bottom_left = patch(rows.second, columns.first);
      const float* const bottom_right = patch(rows.second, columns.second);
      const float t = columns.weight;
      const float s = rows.weight;
      float* const to = y.as<float>() + (r * out_w + j) * channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        const float top = (1.0F - t) * top_left[c] + t * top_right[c];
        const float bottom = (1.0F - t) * bottom_left[c] + t * bottom_right[c];
        to[c] = (1.0F - s) * top + s * bottom;
      }
    }
  };
  cpu::parallel_for(stream, y.dim(0) * out_h, 4 * out_w * channels,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t r = begin; r < end; ++r) resize_row(r);
                    });
}

}  // namespace caption::kernels::impl
