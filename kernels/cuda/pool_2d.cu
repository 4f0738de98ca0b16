// A thread per pack of channels of an output patch.
//
// Traffic  4 bytes per number in and out. The patches that two windows of adaptive_mean_2d() share
//          are in L1 or L2. Measured on no GPU.
#include "kernels/pool_2d.h"

#include "kernels/cuda/elementwise.cuh"

namespace caption::kernels::cuda {
namespace {

// x [frames, grid_h, grid_w, channels], y [frames, out_h, out_w, channels]
struct PoolParams {
  const float* x;
  float* y;
  std::int64_t frame_stride;  // elements between frames of x
  int grid_h;
  int grid_w;
  int out_h;
  int out_w;
  int channels;
  int stride;  // pool_2d()
  Pieces pieces;
};

// The output patch of a thread, and the pack of channels of the frame's first patch.
struct OutputPatch {
  const float* frame;
  int i;
  int j;

  CAPTION_DEVICE OutputPatch(const PoolParams& p, int channel) {
    const int patch = p.pieces.row();
    frame = p.x + patch / (p.out_h * p.out_w) * p.frame_stride + channel;
    i = patch / p.out_w % p.out_h;
    j = patch % p.out_w;
  }
};

template <int kCount>
CAPTION_DEVICE Packed<float, kCount> load_patch(const PoolParams& p, const float* frame, int row,
                                                int column) {
  const std::int64_t patch = row * p.grid_w + column;
  return load(reinterpret_cast<const Packed<float, kCount>*>(frame + patch * p.channels));
}

template <int kCount>
CAPTION_DEVICE void store_patch(const PoolParams& p, int channel, Packed<float, kCount> y) {
  float* const to = p.y + static_cast<std::int64_t>(p.pieces.row()) * p.channels + channel;
  store(reinterpret_cast<Packed<float, kCount>*>(to), y);
}

template <Pooling kPooling, int kCount>
struct Pool2d {
  static constexpr int kThreads = kElementwiseThreads;
  using Params = PoolParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int c = p.pieces.column(kCount);
    if (c >= p.channels) return;
    const OutputPatch out(p, c);
    using Pack = Packed<float, kCount>;
    Pack y = load_patch<kCount>(p, out.frame, out.i * p.stride, out.j * p.stride);
    for (int at = 1; at < p.stride * p.stride; ++at) {
      const Pack x = load_patch<kCount>(p, out.frame, out.i * p.stride + at / p.stride,
                                        out.j * p.stride + at % p.stride);
      for (int k = 0; k < kCount; ++k) {
        if constexpr (kPooling == Pooling::kMean) {
          y.x[k] += x.x[k];
        } else {
          y.x[k] = y.x[k] < x.x[k] ? x.x[k] : y.x[k];
        }
      }
    }
    if constexpr (kPooling == Pooling::kMean) {
      const auto size = static_cast<float>(p.stride * p.stride);
      for (int k = 0; k < kCount; ++k) y.x[k] = divide(y.x[k], size);
    }
    store_patch(p, c, y);
  }
};
template <int kCount>
using MeanPool = Pool2d<Pooling::kMean, kCount>;
template <int kCount>
using MaxPool = Pool2d<Pooling::kMax, kCount>;

// The rows or columns [first, end) of window `index` of `count` over an axis of `extent`.
struct Window {
  CAPTION_DEVICE Window(int index, int count, int extent)
      : first(index * extent / count), end(((index + 1) * extent + count - 1) / count) {}
  int first;
  int end;
};

template <int kCount>
struct AdaptiveMean {
  static constexpr int kThreads = kElementwiseThreads;
  using Params = PoolParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int c = p.pieces.column(kCount);
    if (c >= p.channels) return;
    const OutputPatch out(p, c);
    const Window rows(out.i, p.out_h, p.grid_h);
    const Window columns(out.j, p.out_w, p.grid_w);
    Packed<float, kCount> y{};
    for (int row = rows.first; row < rows.end; ++row) {
      for (int column = columns.first; column < columns.end; ++column) {
        const Packed<float, kCount> x = load_patch<kCount>(p, out.frame, row, column);
        for (int k = 0; k < kCount; ++k) y.x[k] += x.x[k];
      }
    }
    const auto size = static_cast<float>((rows.end - rows.first) * (columns.end - columns.first));
    for (int k = 0; k < kCount; ++k) y.x[k] = divide(y.x[k], size);
    store_patch(p, c, y);
  }
};

template <template <int> class Kernel>
void launch_pool(Stream& stream, ConstView x, std::int64_t stride, View y) {
  const auto extent = [](ConstView view, int axis) { return static_cast<int>(view.dim(axis)); };
  launch_pieces<Kernel>(stream, y.dim(0) * y.dim(1) * y.dim(2), y.dim(3), choose_pack({x, y}),
                        {.x = static_cast<const float*>(x.raw()),
                         .y = static_cast<float*>(y.raw()),
                         .frame_stride = x.row_stride(),
                         .grid_h = extent(x, 1),
                         .grid_w = extent(x, 2),
                         .out_h = extent(y, 1),
                         .out_w = extent(y, 2),
                         .channels = extent(y, 3),
                         .stride = static_cast<int>(stride),
                         .pieces = {}});
}

}  // namespace
}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

void pool_2d(Cuda, Stream& stream, ConstView x, Pooling pooling, std::int64_t stride, View y) {
  if (pooling == Pooling::kMean) {
    cuda::launch_pool<cuda::MeanPool>(stream, x, stride, y);
  } else {
    cuda::launch_pool<cuda::MaxPool>(stream, x, stride, y);
  }
}

void adaptive_mean_2d(Cuda, Stream& stream, ConstView x, View y) {
  cuda::launch_pool<cuda::AdaptiveMean>(stream, x, 1, y);
}

}  // namespace caption::kernels::impl
