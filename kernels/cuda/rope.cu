// Traffic  rope_table: once per step; rope: 8 bytes per number, 4 of the table per pair and head.
// Measured on no GPU.
#include "kernels/rope.h"

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/math.cuh"

namespace caption::kernels::cuda {
namespace {

// A thread per angle.
struct RopeTable {
  static constexpr int kThreads = kElementwiseThreads;
  struct Params {
    const std::int32_t* positions;  // [axes, tokens]
    const float* inv_freq;          // [half]
    const std::int32_t* axis;       // [half], or null
    float* table;                   // [tokens, 2 * half]
    std::int64_t tokens;
    int half;
    float scale;
    Pieces pieces;
  };
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int i = p.pieces.column(1);
    if (i >= p.half) return;
    const std::int64_t token = p.pieces.row();
    const std::int64_t axis = p.axis == nullptr ? 0 : load(p.axis + i);
    const auto position = static_cast<float>(load(p.positions + axis * p.tokens + token));
    const SineCosine angle = sine_cosine(position * load(p.inv_freq + i));
    float* const row = p.table + token * 2 * p.half;
    store(row + i, angle.cosine * p.scale);
    store(row + p.half + i, angle.sine * p.scale);
  }
};

// A thread per pair of elements that rotates; rows are tokens with all their heads.
struct Rope {
  static constexpr int kThreads = kElementwiseThreads;
  struct Params {
    const float* table;  // [tokens, 2 * half]
    float* x;            // [tokens, heads, 2 * half]
    std::int64_t x_stride;
    int half;
    int pairs;  // heads * half
    Pieces pieces;
  };
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int pair = p.pieces.column(1);
    if (pair >= p.pairs) return;
    const std::int64_t token = p.pieces.row();
    const int i = pair % p.half;
    const float* const row = p.table + token * 2 * p.half;
    float* const low = p.x + token * p.x_stride + pair / p.half * 2 * p.half + i;
    float* const high = low + p.half;
    const float cosine = load(row + i);
    const float sine = load(row + p.half + i);
    const float a = load(low);
    const float b = load(high);
    store(low, a * cosine - b * sine);
    store(high, b * cosine + a * sine);
  }
};

}  // namespace
}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

void rope_table(Cuda, Stream& stream, const RopeAngles& angles, View table) {
  const std::int64_t half = angles.inv_freq.dim(0);
  const cuda::Pieces pieces = cuda::cut_rows(half, 1);
  cuda::launch<cuda::RopeTable>(
      stream, cuda::grid_of(table.dim(0), pieces),
      {.positions = static_cast<const std::int32_t*>(angles.positions.raw()),
       .inv_freq = static_cast<const float*>(angles.inv_freq.raw()),
       .axis = static_cast<const std::int32_t*>(angles.axis.raw()),
       .table = static_cast<float*>(table.raw()),
       .tokens = table.dim(0),
       .half = static_cast<int>(half),
       .scale = angles.scale,
       .pieces = pieces});
}

void rope(Cuda, Stream& stream, ConstView table, View x) {
  const std::int64_t half = x.dim(2) / 2;
  const cuda::Pieces pieces = cuda::cut_rows(x.dim(1) * half, 1);
  cuda::launch<cuda::Rope>(stream, cuda::grid_of(x.dim(0), pieces),
                           {.table = static_cast<const float*>(table.raw()),
                            .x = static_cast<float*>(x.raw()),
                            .x_stride = x.row_stride(),
                            .half = static_cast<int>(half),
                            .pairs = static_cast<int>(x.dim(1) * half),
                            .pieces = pieces});
}

}  // namespace caption::kernels::impl
