// A thread per pack of channels of an output patch.
//
// Traffic  4 bytes per number in and out; patches that neighbours share are in L1 or L2.
// Numbers  the CPU's operations in the CPU's order: the same bits.
// Measured on no GPU.
#include "kernels/resize_bilinear.h"

#include "kernels/cuda/elementwise.cuh"

namespace caption::kernels::cuda {
namespace {

struct Axis {
  int in_size;
  int out_size;
  float scale;  // in_size / out_size
};

struct ResizeParams {
  const float* x;  // [frames, rows.in_size, columns.in_size, channels]
  float* y;        // [frames, rows.out_size, columns.out_size, channels]
  Axis rows;
  Axis columns;
  int channels;
  Pieces pieces;
};

// The two elements of an axis between which an output element lies, and the second one's weight.
struct Neighbours {
  int first;
  int second;
  float weight;

  CAPTION_DEVICE Neighbours(const Axis& axis, int out) {
    const float centre = axis.scale * (static_cast<float>(out) + 0.5F) - 0.5F;
    const float position = centre < 0.0F ? 0.0F : centre;
    const int last = axis.in_size - 1;
    const int below = static_cast<int>(position);
    first = below < last ? below : last;
    second = first < last ? first + 1 : last;
    const float rest = position - static_cast<float>(first);
    weight = rest < 1.0F ? rest : 1.0F;
  }
};

template <int kCount>
struct ResizeBilinear {
  static constexpr int kThreads = kElementwiseThreads;
  using Params = ResizeParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int c = p.pieces.column(kCount);
    if (c >= p.channels) return;
    const int patch = p.pieces.row();
    const Neighbours rows(p.rows, patch / p.columns.out_size % p.rows.out_size);
    const Neighbours columns(p.columns, patch % p.columns.out_size);
    const std::int64_t frame = patch / (p.rows.out_size * p.columns.out_size);
    using Pack = Packed<float, kCount>;
    const auto corner = [&](int row, int column) {
      const std::int64_t from = (frame * p.rows.in_size + row) * p.columns.in_size + column;
      return load(reinterpret_cast<const Pack*>(p.x + from * p.channels + c));
    };
    const Pack top_left = corner(rows.first, columns.first);
    const Pack top_right = corner(rows.first, columns.second);
    const Pack bottom_left = corner(rows.second, columns.first);
    const Pack bottom_right = corner(rows.second, columns.second);
    const float t = columns.weight;
    const float s = rows.weight;
    Pack y;
    for (int k = 0; k < kCount; ++k) {
      const float top = (1.0F - t) * top_left.x[k] + t * top_right.x[k];
      const float bottom = (1.0F - t) * bottom_left.x[k] + t * bottom_right.x[k];
      y.x[k] = (1.0F - s) * top + s * bottom;
    }
    store(reinterpret_cast<Pack*>(p.y + static_cast<std::int64_t>(patch) * p.channels + c), y);
  }
};

Axis axis_of(std::int64_t in_size, std::int64_t out_size) {
  return {.in_size = static_cast<int>(in_size),
          .out_size = static_cast<int>(out_size),
          .scale = static_cast<float>(in_size) / static_cast<float>(out_size)};
}

}  // namespace
}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

void resize_bilinear(Cuda, Stream& stream, ConstView x, View y) {
  const std::int64_t patches = y.dim(0) * y.dim(1) * y.dim(2);
  cuda::launch_pieces<cuda::ResizeBilinear>(stream, patches, y.dim(3), cuda::choose_pack({x, y}),
                                            {.x = static_cast<const float*>(x.raw()),
                                             .y = static_cast<float*>(y.raw()),
                                             .rows = cuda::axis_of(x.dim(1), y.dim(1)),
                                             .columns = cuda::axis_of(x.dim(2), y.dim(2)),
                                             .channels = static_cast<int>(y.dim(3)),
                                             .pieces = {}});
}

}  // namespace caption::kernels::impl
