#include "kernels/pool_2d.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"

namespace caption::kernels::impl {
namespace {

// Computes one output patch from the window of `stride` x `stride` patches that begins at `x`.
void pool_window(const float* x, std::int64_t grid_w, std::int64_t channels, std::int64_t stride,
                 Pooling pooling, float* y) {
  std::copy_n(x, channels, y);
  for (std::int64_t i = 0; i < stride; ++i) {
    for (std::int64_t j = i == 0 ? 1 : 0; j < stride; ++j) {
      const float* const patch = x + (i * grid_w + j) * channels;
      if (pooling == Pooling::kMean) {
        for (std::int64_t c = 0; c < channels; ++c) y[c] += patch[c];
      } else {
        for (std::int64_t c = 0; c < channels; ++c) y[c] = std::max(y[c], patch[c]);
      }
    }
  }
  if (pooling == Pooling::kMean && stride > 1) {
    const auto size = static_cast<float>(stride * stride);
    for (std::int64_t c = 0; c < channels; ++c) y[c] /= size;
  }
}

}  // namespace

void pool_2d(Cpu, Stream& stream, ConstView x, Pooling pooling, std::int64_t stride, View y) {
  const std::int64_t grid_w = x.dim(2);
  const std::int64_t channels = x.dim(3);
  const std::int64_t out_h = y.dim(1);
  const std::int64_t out_w = y.dim(2);
  if (y.num_elements() == 0) return;
  cpu::parallel_for(stream, y.dim(0) * out_h, out_w * stride * stride * channels,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t r = begin; r < end; ++r) {
                        const float* const row = x.as<float>() + r / out_h * x.row_stride() +
                                                 r % out_h * stride * grid_w * channels;
                        for (std::int64_t j = 0; j < out_w; ++j) {
                          pool_window(row + j * stride * channels, grid_w, channels, stride,
                                      pooling, y.as<float>() + (r * out_w + j) * channels);
                        }
                      }
                    });
}

}  // namespace caption::kernels::impl
