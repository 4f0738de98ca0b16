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

// The rows or columns [first, end) of window `index` of `count` over an axis of `extent`.
struct Window {
  Window(std::int64_t index, std::int64_t count, std::int64_t extent)
      : first(index * extent / count), end(((index + 1) * extent + count - 1) / count) {}
  std::int64_t first;
  std::int64_t end;
};

// Computes the mean of the patches in the given rows and columns of a frame.
void mean_window(const float* frame, std::int64_t grid_w, std::int64_t channels, Window rows,
                 Window columns, float* y) {
  std::fill_n(y, channels, 0.0F);
  for (std::int64_t i = rows.first; i < rows.end; ++i) {
    for (std::int64_t j = columns.first; j < columns.end; ++j) {
      const float* const patch = frame + (i * grid_w + j) * channels;
      for (std::int64_t c = 0; c < channels; ++c) y[c] += patch[c];
    }
  }
  const auto size = static_cast<float>((rows.end - rows.first) * (columns.end - columns.first));
  for (std::int64_t c = 0; c < channels; ++c) y[c] /= size;
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

void adaptive_mean_2d(Cpu, Stream& stream, ConstView x, View y) {
  const std::int64_t grid_h = x.dim(1);
  const std::int64_t grid_w = x.dim(2);
  const std::int64_t channels = x.dim(3);
  const std::int64_t out_h = y.dim(1);
  const std::int64_t out_w = y.dim(2);
  if (y.num_elements() == 0) return;
  const std::int64_t operations = (grid_h / out_h + 1) * (grid_w / out_w + 1) * channels;
  cpu::parallel_for(stream, y.dim(0) * out_h * out_w, operations,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t o = begin; o < end; ++o) {
                        const std::int64_t frame = o / (out_h * out_w);
                        mean_window(x.as<float>() + frame * grid_h * grid_w * channels, grid_w,
                                    channels, Window(o / out_w % out_h, out_h, grid_h),
                                    Window(o % out_w, out_w, grid_w), y.as<float>() + o * channels);
                      }
                    });
}

}  // namespace caption::kernels::impl
