// Depthwise convolution on the CPU.
//
// Traffic   4 bytes in and out per number; the rows of the window are in the cache. 9 multiply-adds
//           per number with a 3x3 kernel.
#include "kernels/depthwise_conv_2d.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"
#include "tensor/dtype.h"

namespace caption::kernels::impl {
namespace {

// Writes weight [C, 1, size, size] as f32 [size * size, C], so that a tap's channels lie together.
void transpose_weight(ConstView weight, float* taps) {
  const std::int64_t channels = weight.dim(0);
  const std::int64_t num_taps = weight.dim(2) * weight.dim(3);
  dispatch_float(weight.dtype(), [&](auto tag) {
    const auto* const from = weight.as<decltype(tag)>();
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t tap = 0; tap < num_taps; ++tap) {
        taps[tap * channels + c] = to_float(from[c * num_taps + tap]);
      }
    }
  });
}

// Computes the output of one patch of a frame; patches are counted row by row.
void convolve_patch(const float* frame, const float* taps, const Shape& grid, std::int64_t patch,
                    std::int64_t size, float* y) {
  const std::int64_t channels = grid[3];
  const std::int64_t radius = size / 2;
  const std::int64_t row = patch / grid[2];
  const std::int64_t j = patch % grid[2];
  std::fill_n(y, channels, 0.0F);
  for (std::int64_t u = 0; u < size; ++u) {
    const std::int64_t from_row = row + u - radius;
    if (from_row < 0 || from_row >= grid[1]) continue;
    for (std::int64_t v = 0; v < size; ++v) {
      const std::int64_t column = j + v - radius;
      if (column < 0 || column >= grid[2]) continue;
      const float* const x = frame + (from_row * grid[2] + column) * channels;
      const float* const tap = taps + (u * size + v) * channels;
      for (std::int64_t c = 0; c < channels; ++c) y[c] += x[c] * tap[c];
    }
  }
}

}  // namespace

void depthwise_conv_2d(Cpu, Stream& stream, ConstView x, ConstView weight, View y) {
  if (y.num_elements() == 0) return;
  const std::int64_t size = weight.dim(2);
  auto* const taps = reinterpret_cast<float*>(
      stream.scratch(static_cast<std::size_t>(weight.num_elements()) * sizeof(float)));
  transpose_weight(weight, taps);
  const std::int64_t grid_h = x.dim(1);
  const std::int64_t grid_w = x.dim(2);
  const std::int64_t row_size = grid_w * x.dim(3);
  cpu::parallel_for(stream, x.dim(0) * grid_h, row_size * size * size,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t r = begin; r < end; ++r) {
                        const float* const frame = x.as<float>() + r / grid_h * grid_h * row_size;
                        float* const out = y.as<float>() + r * row_size;
                        for (std::int64_t j = 0; j < grid_w; ++j) {
                          convolve_patch(frame, taps, x.shape(), r % grid_h * grid_w + j, size,
                                         out + j * x.dim(3));
                        }
                      }
                    });
}

}  // namespace caption::kernels::impl
