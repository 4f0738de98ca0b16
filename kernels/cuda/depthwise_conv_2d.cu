// Depthwise convolution on a GPU: a block per row of a frame's grid and 32 channels, whose weight
// is in shared memory; a warp per patch, a lane per channel.
//
// Traffic  4 bytes per number in and out; the window's other rows and the weight are in L1 or L2.
// Sums     over u and then v, as the contract has them: the CPU's bits.
// Measured on no GPU.
#include "kernels/depthwise_conv_2d.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"

namespace caption::kernels::cuda {
namespace {

constexpr int kChannels = 32;  // channels per block
constexpr int kMostTaps = 15 * 15;

struct ConvolutionParams {
  const float* x;       // [frames, grid_h, grid_w, channels]
  ConstNumbers weight;  // [channels, size * size]
  float* y;             // the shape of x
  int grid_h;
  int grid_w;
  int channels;
  int size;
};

struct DepthwiseConv2d {
  static constexpr int kThreads = 256;
  using Params = ConvolutionParams;
  struct Shared {
    float weight[kChannels * kMostTaps];  // [kChannels, size * size]
  };

  static CAPTION_DEVICE void run(const Params& p) {
    auto& shared = shared_memory<Shared>();
    const int taps = p.size * p.size;  // odd, so that 32 channels of a tap are in 32 banks
    const int first = block_y() * kChannels;
    const int left = p.channels - first;
    const int count = left < kChannels ? left : kChannels;
    const std::int64_t begin = static_cast<std::int64_t>(first) * taps;
    for (int i = thread_index(); i < count * taps; i += kThreads) {
      shared.weight[i] = load_numbers<1>(p.weight, begin + i).x[0];
    }
    sync_block();
    if (lane_index() >= count) return;
    for (int j = warp_index(); j < p.grid_w; j += kThreads / 32) {
      convolve(p, shared.weight + lane_index() * taps, j, first + lane_index());
    }
  }

  // The output of a channel of patch j of the block's row.
  static CAPTION_DEVICE void convolve(const Params& p, const float* weight, int j, int channel) {
    const int row = block_x();  // counted over all frames
    const int i = row % p.grid_h;
    float sum = 0;
    for (int u = 0; u < p.size; ++u) {
      const int from_i = i + u - p.size / 2;
      if (from_i < 0 || from_i >= p.grid_h) continue;
      for (int v = 0; v < p.size; ++v) {
        const int from_j = j + v - p.size / 2;
        if (from_j < 0 || from_j >= p.grid_w) continue;
        const std::int64_t patch = static_cast<std::int64_t>(row - i + from_i) * p.grid_w + from_j;
        sum += load(p.x + patch * p.channels + channel) * weight[u * p.size + v];
      }
    }
    const std::int64_t patch = static_cast<std::int64_t>(row) * p.grid_w + j;
    store(p.y + patch * p.channels + channel, sum);
  }
};

}  // namespace
}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

void depthwise_conv_2d(Cuda, Stream& stream, ConstView x, ConstView weight, View y) {
  const std::int64_t channels = x.dim(3);
  cuda::launch<cuda::DepthwiseConv2d>(
      stream,
      {.x = static_cast<unsigned>(x.dim(0) * x.dim(1)),
       .y = static_cast<unsigned>((channels + cuda::kChannels - 1) / cuda::kChannels)},
      {.x = static_cast<const float*>(x.raw()),
       .weight = cuda::numbers_of(weight),
       .y = static_cast<float*>(y.raw()),
       .grid_h = static_cast<int>(x.dim(1)),
       .grid_w = static_cast<int>(x.dim(2)),
       .channels = static_cast<int>(channels),
       .size = static_cast<int>(weight.dim(2))});
}

}  // namespace caption::kernels::impl
