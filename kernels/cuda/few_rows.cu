// A block computes 16 features of all rows. Its four warps take the slices of K in turn; a warp's
// weights come through a ring of asynchronous copies, whose 16 bytes each lane reads itself, so the
// ring needs no barrier.
//
// Traffic    2 bytes per weight, once; x comes from L1 and L2.
// In flight  11 copies of 512 bytes per warp: 45 KB per multiprocessor with two blocks, where an
//            H200 needs 33 KB for its bandwidth.
// Measured on no GPU.
#include "kernels/cuda/few_rows.h"

#include "base/error.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"

namespace caption::kernels::cuda {
namespace {

constexpr int kTile = 16;  // features, and columns, of a tile
constexpr int kSliceSteps = kSliceColumns / kTile;
constexpr int kFewRowsWarps = 4;
constexpr int kStages = 12;
constexpr int kPackThreads = 128;

int count_tiles(std::int64_t size) { return static_cast<int>((size + kTile - 1) / kTile); }

struct PackParams {
  const std::uint16_t* rows;
  Bytes16* tiles;
  std::int64_t row_stride;
  int features;
  int columns;
  int tiles_per_row;
  int lanes;  // 32 * tiles
};

// A thread per lane of a tile.
struct PackW16 {
  static constexpr int kThreads = kPackThreads;
  using Params = PackParams;
  struct Shared {};

  static CAPTION_DEVICE void run(const Params& p) {
    const int i = block_x() * kPackThreads + thread_index();
    if (i >= p.lanes) return;
    const int lane = i % 32;
    const int feature = i / 32 / p.tiles_per_row * kTile + lane / 4;
    const int column = i / 32 % p.tiles_per_row * kTile + lane % 4 * 2;
    Bytes16 fragment;
    for (int r = 0; r < 4; ++r) {
      const int n = feature + r % 2 * 8;
      const int k = column + r / 2 * 8;
      fragment.word[r] = element(p, n, k) | element(p, n, k + 1) << 16;
    }
    store(p.tiles + i, fragment);
  }

  static CAPTION_DEVICE std::uint32_t element(const Params& p, int n, int k) {
    if (n >= p.features || k >= p.columns) return 0;
    return load(p.rows + n * p.row_stride + k);
  }
};

struct FewRowsParams {
  const Bytes16* tiles;
  ConstNumbers x;
  float* y;
  std::int64_t x_stride;
  std::int64_t y_stride;
  int rows;
  int features;
  int columns;
  int steps;  // tiles along K
};

CAPTION_DEVICE void multiply_tile(BF16, FragmentC& c, const FragmentA& a, const FragmentB& b) {
  mma_bf16(c, a, b);
}
CAPTION_DEVICE void multiply_tile(F16, FragmentC& c, const FragmentA& a, const FragmentB& b) {
  mma_f16(c, a, b);
}

// T is the weights' type; kGroups groups of 8 rows; with kPairs two adjacent elements of x are
// aligned to their size.
template <class T, int kGroups, bool kPairs>
struct FewRows {
  static constexpr int kThreads = 32 * kFewRowsWarps;
  using Params = FewRowsParams;
  struct Shared {
    Bytes16 ring[kFewRowsWarps][kStages][32];
    float sums[kFewRowsWarps][kGroups][4][32];  // of a slice each
  };

  static CAPTION_DEVICE void run(const Params& p) {
    auto& shared = shared_memory<Shared>();
    for (int i = 0; i < kStages - 1; ++i) copy_tile(p, shared, i);
    float totals[kGroups][4] = {};
    int next = 0;  // the warp's tiles are numbered in the order in which it needs them
    for (int first = 0; first * kSliceSteps < p.steps; first += kFewRowsWarps) {
      FragmentC sums[kGroups] = {};
      const int begin = (first + warp_index()) * kSliceSteps;
      const int end = begin + kSliceSteps < p.steps ? begin + kSliceSteps : p.steps;
      for (int step = begin; step < end; ++step, ++next) {
        wait_copies<kStages - 2>();
        const Bytes16 tile = load(&shared.ring[warp_index()][next % kStages][lane_index()]);
        copy_tile(p, shared, next + kStages - 1);
        const FragmentA a = {{tile.word[0], tile.word[1], tile.word[2], tile.word[3]}};
        for (int g = 0; g < kGroups; ++g) {
          multiply_tile(T{}, sums[g], a, fragment_of_x(p, g, step * kTile));
        }
      }
      add_slices(shared, sums, totals);
    }
    wait_copies<0>();
    if (warp_index() == 0) store_totals(p, totals);
  }

  // Begins the copy of the warp's tile number i into its place of the ring, if there is one, and
  // makes it a group of its own.
  static CAPTION_DEVICE void copy_tile(const Params& p, Shared& shared, int i) {
    const int slice = i / kSliceSteps * kFewRowsWarps + warp_index();
    const int step = slice * kSliceSteps + i % kSliceSteps;
    if (step < p.steps) {
      const std::int64_t tile = static_cast<std::int64_t>(block_x()) * p.steps + step;
      copy_16_async(&shared.ring[warp_index()][i % kStages][lane_index()],
                    p.tiles + tile * 32 + lane_index(), true);
    }
    commit_copies();
  }

  // Two elements of a row of x from column k on, zeros beyond the row.
  static CAPTION_DEVICE std::uint32_t pair_of_x(const Params& p, std::int64_t row, int k) {
    if (kPairs && k + 1 < p.columns) {
      const Packed<float, 2> pair = load_numbers<2>(p.x, row + k);
      return bits_of(pair.x[0]) | bits_of(pair.x[1]) << 16;
    }
    std::uint32_t bits = 0;
    if (k < p.columns) bits = bits_of(load_numbers<1>(p.x, row + k).x[0]);
    if (k + 1 < p.columns) bits |= bits_of(load_numbers<1>(p.x, row + k + 1).x[0]) << 16;
    return bits;
  }

  static CAPTION_DEVICE std::uint32_t bits_of(float x) {
    T narrowed;
    narrow(x, narrowed);
    return narrowed.bits;
  }

  static CAPTION_DEVICE FragmentB fragment_of_x(const Params& p, int group, int k) {
    const int m = group * 8 + lane_index() / 4;
    if (m >= p.rows) return {};
    const std::int64_t row = m * p.x_stride;
    const int column = k + lane_index() % 4 * 2;
    return {{pair_of_x(p, row, column), pair_of_x(p, row, column + 8)}};
  }

  // Adds the four warps' slices to warp 0's totals, in their order. A warp without a slice has
  // zeros, which change no sum.
  static CAPTION_DEVICE void add_slices(Shared& shared, const FragmentC (&sums)[kGroups],
                                        float (&totals)[kGroups][4]) {
    for (int g = 0; g < kGroups; ++g) {
      for (int e = 0; e < 4; ++e) shared.sums[warp_index()][g][e][lane_index()] = sums[g].sum[e];
    }
    sync_block();
    if (warp_index() == 0) {
      for (int g = 0; g < kGroups; ++g) {
        for (int e = 0; e < 4; ++e) {
          for (int w = 0; w < kFewRowsWarps; ++w) {
            totals[g][e] += shared.sums[w][g][e][lane_index()];
          }
        }
      }
    }
    sync_block();
  }

  static CAPTION_DEVICE void store_totals(const Params& p, const float (&totals)[kGroups][4]) {
    for (int g = 0; g < kGroups; ++g) {
      for (int e = 0; e < 4; ++e) {
        const int m = g * 8 + lane_index() % 4 * 2 + e % 2;
        const int n = block_x() * kTile + lane_index() / 4 + e / 2 * 8;
        if (m < p.rows && n < p.features) store(p.y + m * p.y_stride + n, totals[g][e]);
      }
    }
  }
};

template <class T>
void launch_few_rows(Stream& stream, Grid grid, const FewRowsParams& params, bool has_pairs) {
  if (params.rows <= 8) {
    if (has_pairs) return launch<FewRows<T, 1, true>>(stream, grid, params);
    return launch<FewRows<T, 1, false>>(stream, grid, params);
  }
  if (has_pairs) return launch<FewRows<T, 2, true>>(stream, grid, params);
  launch<FewRows<T, 2, false>>(stream, grid, params);
}

}  // namespace

std::size_t packed_w16_bytes(std::int64_t num_features, std::int64_t num_columns) {
  return static_cast<std::size_t>(count_tiles(num_features)) *
         static_cast<std::size_t>(count_tiles(num_columns)) * 32 * sizeof(Bytes16);
}

PackedW16 pack_w16(Stream& stream, ConstView rows, void* tiles) {
  const bool is_16_bit = rows.dtype() == DType::kBF16 || rows.dtype() == DType::kF16;
  CAPTION_CHECK(rows.shape().rank() == 2 && is_16_bit, "pack_w16: rows are not [N, K] bf16 or f16");
  const int tiles_per_row = count_tiles(rows.dim(1));
  const int lanes = count_tiles(rows.dim(0)) * tiles_per_row * 32;
  launch<PackW16>(stream, {.x = static_cast<unsigned>((lanes + kPackThreads - 1) / kPackThreads)},
                  {.rows = static_cast<const std::uint16_t*>(rows.raw()),
                   .tiles = static_cast<Bytes16*>(tiles),
                   .row_stride = rows.row_stride(),
                   .features = static_cast<int>(rows.dim(0)),
                   .columns = static_cast<int>(rows.dim(1)),
                   .tiles_per_row = tiles_per_row,
                   .lanes = lanes});
  return {.tiles = tiles,
          .dtype = rows.dtype(),
          .num_features = rows.dim(0),
          .num_columns = rows.dim(1)};
}

void multiply_few_rows(Stream& stream, ConstView x, const PackedW16& weight, View y) {
  CAPTION_CHECK(x.shape() == (Shape{x.dim(0), weight.num_columns}) && x.dim(0) <= kMostFewRows,
                "multiply_few_rows: x is not [M, K] with at most 16 rows");
  CAPTION_CHECK(y.shape() == (Shape{x.dim(0), weight.num_features}) && y.dtype() == DType::kF32,
                "multiply_few_rows: y is not [M, N] f32");
  if (x.dim(0) == 0) return;
  const FewRowsParams params{.tiles = static_cast<const Bytes16*>(weight.tiles),
                             .x = numbers_of(x),
                             .y = static_cast<float*>(y.raw()),
                             .x_stride = x.row_stride(),
                             .y_stride = y.row_stride(),
                             .rows = static_cast<int>(x.dim(0)),
                             .features = static_cast<int>(weight.num_features),
                             .columns = static_cast<int>(weight.num_columns),
                             .steps = count_tiles(weight.num_columns)};
  const Grid grid{.x = static_cast<unsigned>(count_tiles(weight.num_features))};
  const auto pair_bytes = 2 * dtype_size_bytes(x.dtype());
  const bool has_pairs =
      reinterpret_cast<std::uintptr_t>(x.raw()) % pair_bytes == 0 && x.row_stride() % 2 == 0;
  if (weight.dtype == DType::kBF16) {
    launch_few_rows<BF16>(stream, grid, params, has_pairs);
  } else {
    launch_few_rows<F16>(stream, grid, params, has_pairs);
  }
}

}  // namespace caption::kernels::cuda
