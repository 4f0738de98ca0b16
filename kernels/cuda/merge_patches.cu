// A thread per pack of numbers of an output row.
//
// Traffic  4 bytes per number in and out. Measured on no GPU.
#include "kernels/merge_patches.h"

#include "kernels/cuda/elementwise.cuh"

namespace caption::kernels::cuda {
namespace {

// x [frames, grid_h, grid_w, channels], y [frames, out_h, out_w, columns]
struct MergeParams {
  const float* x;
  float* y;
  std::int64_t frame_stride;  // elements between frames of x
  int grid_w;
  int out_h;
  int out_w;
  int channels;
  int stride;
  int columns;  // stride * stride * channels
  Pieces pieces;
};

// Element `channel` of patch `at` of the thread's window.
CAPTION_DEVICE const float* element(const MergeParams& p, int at, int channel) {
  const int row = p.pieces.row();
  const int i = row / p.out_w % p.out_h * p.stride + at / p.stride;
  const int j = row % p.out_w * p.stride + at % p.stride;
  const std::int64_t patch = i * p.grid_w + j;
  return p.x + row / (p.out_h * p.out_w) * p.frame_stride + patch * p.channels + channel;
}

template <MergeOrder kOrder, int kCount>
struct MergePatches {
  static constexpr int kThreads = kElementwiseThreads;
  using Params = MergeParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int c = p.pieces.column(kCount);
    if (c >= p.columns) return;
    using Pack = Packed<float, kCount>;
    Pack y;
    if constexpr (kOrder == MergeOrder::kPatchMajor) {
      y = load(reinterpret_cast<const Pack*>(element(p, c / p.channels, c % p.channels)));
    } else {
      const int patches = p.stride * p.stride;
      for (int k = 0; k < kCount; ++k) {
        y.x[k] = load(element(p, (c + k) % patches, (c + k) / patches));
      }
    }
    float* const to = p.y + static_cast<std::int64_t>(p.pieces.row()) * p.columns + c;
    store(reinterpret_cast<Pack*>(to), y);
  }
};
template <int kCount>
using PatchMajor = MergePatches<MergeOrder::kPatchMajor, kCount>;
template <int kCount>
using ChannelMajor = MergePatches<MergeOrder::kChannelMajor, kCount>;

template <template <int> class Kernel>
void launch_merge(Stream& stream, ConstView x, std::int64_t stride, int pack, View y) {
  launch_pieces<Kernel>(stream, y.dim(0) * y.dim(1) * y.dim(2), y.dim(3), pack,
                        {.x = static_cast<const float*>(x.raw()),
                         .y = static_cast<float*>(y.raw()),
                         .frame_stride = x.row_stride(),
                         .grid_w = static_cast<int>(x.dim(2)),
                         .out_h = static_cast<int>(y.dim(1)),
                         .out_w = static_cast<int>(y.dim(2)),
                         .channels = static_cast<int>(x.dim(3)),
                         .stride = static_cast<int>(stride),
                         .columns = static_cast<int>(y.dim(3)),
                         .pieces = {}});
}

}  // namespace
}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

void merge_patches(Cuda, Stream& stream, ConstView x, std::int64_t stride, MergeOrder order,
                   View y) {
  if (order == MergeOrder::kPatchMajor) {
    cuda::launch_merge<cuda::PatchMajor>(stream, x, stride, cuda::choose_pack({x, y}), y);
  } else {
    cuda::launch_merge<cuda::ChannelMajor>(stream, x, stride, cuda::choose_pack({y}), y);
  }
}

}  // namespace caption::kernels::impl
