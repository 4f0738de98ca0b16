#include "kernels/merge_patches.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"

namespace caption::kernels::impl {
namespace {

// Writes one row from the window of `stride` x `stride` patches that begins at `x`.
void merge_window(const float* x, std::int64_t grid_w, std::int64_t channels, std::int64_t stride,
                  MergeOrder order, float* y) {
  for (std::int64_t u = 0; u < stride; ++u) {
    for (std::int64_t v = 0; v < stride; ++v) {
      const float* const patch = x + (u * grid_w + v) * channels;
      const std::int64_t at = u * stride + v;
      if (order == MergeOrder::kPatchMajor) {
        std::copy_n(patch, channels, y + at * channels);
      } else {
        for (std::int64_t c = 0; c < channels; ++c) y[c * stride * stride + at] = patch[c];
      }
    }
  }
}

}  // namespace

void merge_patches(Cpu, Stream& stream, ConstView x, std::int64_t stride, MergeOrder order,
                   View y) {
  const std::int64_t grid_w = x.dim(2);
  const std::int64_t channels = x.dim(3);
  const std::int64_t out_h = y.dim(1);
  const std::int64_t out_w = y.dim(2);
  if (y.num_elements() == 0) return;
  cpu::parallel_for(
      stream, y.dim(0) * out_h, out_w * y.dim(3), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          const float* const row =
              x.as<float>() + r / out_h * x.row_stride() + r % out_h * stride * grid_w * channels;
          for (std::int64_t j = 0; j < out_w; ++j) {
            merge_window(row + j * stride * channels, grid_w, channels, stride, order,
                         y.as<float>() + (r * out_w + j) * y.dim(3));
          }
        }
      });
}

}  // namespace caption::kernels::impl
