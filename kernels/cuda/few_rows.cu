// The dense layer for few rows, as in decoding, whose time is that of reading the weights.
//
// A block computes 16 features of all rows (of SwiGLU both parts'). Its four warps take the slices
// of K in turn; a warp's weights come through a ring of asynchronous copies, whose 16 bytes each
// lane reads itself, so the ring needs no barrier.
//
// Traffic    2 bytes per weight, once; x comes from L1 and L2.
// In flight  11 copies of 512 bytes per warp: 45 KB per multiprocessor with two blocks, where an
//            H200 needs 33 KB for its bandwidth.
// Measured on no GPU.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/multiply_tiles.cuh"
#include "kernels/cuda/numbers.cuh"

namespace caption::kernels::cuda {
namespace {

constexpr int kFewRowsWarps = 4;
constexpr int kStages = 12;

struct FewRowsParams {
  TilesParts parts;
  ConstNumbers x;
  std::int64_t x_stride;
  int rows;
  int columns;
  int steps;  // tiles along K
};

// T is the weights' type; kGroups groups of 8 rows; with kPairs two adjacent elements of x are
// aligned to their size; kOperands is 2 for SwiGLU, otherwise 1.
template <class T, int kGroups, bool kPairs, int kOperands>
struct FewRows {
  static constexpr int kThreads = 32 * kFewRowsWarps;
  // Floats from a row's features to the next row's: neither the stores of fragments nor the loads
  // of add_slices() meet in a bank.
  static constexpr int kRowStride = 20;
  using Params = FewRowsParams;
  struct Shared {
    Bytes16 ring[kFewRowsWarps][kStages][32];
    float sums[kFewRowsWarps][kOperands][kGroups][8][kRowStride];  // each sums one slice
  };
  using Totals = float[kOperands][kGroups];

  static CAPTION_DEVICE void run(const Params& p) {
    auto& shared = shared_memory<Shared>();
    const int part = p.parts.part_of(block_x());
    const int tile_row = block_x() - p.parts.part[part].first_block;
    for (int i = 0; i < kStages - 1; ++i) copy_tile(p, shared, part, tile_row, i);
    Totals totals = {};
    int next = 0;  // the warp's tiles are numbered in the order in which it needs them
    for (int first = 0; first * kSliceSteps < p.steps; first += kFewRowsWarps) {
      FragmentC sums[kOperands][kGroups] = {};
      const int begin = (first + warp_index()) * kSliceSteps;
      const int end = begin + kSliceSteps < p.steps ? begin + kSliceSteps : p.steps;
      for (int step = begin; step < end; ++step) {
        FragmentB xs[kGroups];
        for (int g = 0; g < kGroups; ++g) xs[g] = fragment_of_x(p, g, step * kTileSize);
        for (int o = 0; o < kOperands; ++o, ++next) {
          wait_copies<kStages - 2>();
          const Bytes16 tile = load(&shared.ring[warp_index()][next % kStages][lane_index()]);
          copy_tile(p, shared, part, tile_row, next + kStages - 1);
          const FragmentA a = {{tile.word[0], tile.word[1], tile.word[2], tile.word[3]}};
          for (int g = 0; g < kGroups; ++g) multiply_tile(T{}, sums[o][g], a, xs[g]);
        }
      }
      add_slices(shared, sums, totals);
    }
    wait_copies<0>();
    store_totals(p, part, tile_row, totals);
  }

  // Begins the copy of the warp's tile number i into its place of the ring, if there is one, and
  // makes it a group of its own. The tiles of gate and up alternate.
  static CAPTION_DEVICE void copy_tile(const Params& p, Shared& shared, int part, int tile_row,
                                       int i) {
    const int slice = i / kOperands / kSliceSteps * kFewRowsWarps + warp_index();
    const int step = slice * kSliceSteps + i / kOperands % kSliceSteps;
    if (step < p.steps) {
      const std::int64_t tile = static_cast<std::int64_t>(tile_row) * p.steps + step;
      copy_16_async(&shared.ring[warp_index()][i % kStages][lane_index()],
                    p.parts.part[part + i % kOperands].weight + tile * 32 + lane_index(), true);
    }
    commit_copies();
  }

  // Two elements of a row of x from column k on, zeros beyond the row.
  static CAPTION_DEVICE std::uint32_t pair_of_x(const Params& p, std::int64_t row, int k) {
    if (kPairs && k + 1 < p.columns) {
      const Packed<float, 2> pair = load_numbers<2>(p.x, row + k);
      return rounded_pair<T>(pair.x[0], pair.x[1]);
    }
    const float low = k < p.columns ? load_numbers<1>(p.x, row + k).x[0] : 0;
    const float high = k + 1 < p.columns ? load_numbers<1>(p.x, row + k + 1).x[0] : 0;
    return rounded_pair<T>(low, high);
  }

  static CAPTION_DEVICE FragmentB fragment_of_x(const Params& p, int group, int k) {
    const int m = group * 8 + lane_index() / 4;
    if (m >= p.rows) return {};
    const std::int64_t row = m * p.x_stride;
    const int column = k + lane_index() % 4 * 2;
    return {{pair_of_x(p, row, column), pair_of_x(p, row, column + 8)}};
  }

  // The row of a group, and the feature of the tile, of the total that a thread adds and stores.
  static CAPTION_DEVICE int row_of_total() { return warp_index() + lane_index() / 16 * 4; }
  static CAPTION_DEVICE int feature_of_total() { return lane_index() % 16; }

  // Adds the four warps' slices to the totals, in their order. A warp without a slice has zeros,
  // which change no sum.
  static CAPTION_DEVICE void add_slices(Shared& shared, const FragmentC (&sums)[kOperands][kGroups],
                                        Totals& totals) {
    for (int o = 0; o < kOperands; ++o) {
      for (int g = 0; g < kGroups; ++g) {
        for (int e = 0; e < 4; ++e) {
          const int row = lane_index() % 4 * 2 + e % 2;
          shared.sums[warp_index()][o][g][row][lane_index() / 4 + e / 2 * 8] = sums[o][g].sum[e];
        }
      }
    }
    sync_block();
    for (int o = 0; o < kOperands; ++o) {
      for (int g = 0; g < kGroups; ++g) {
        for (int w = 0; w < kFewRowsWarps; ++w) {
          totals[o][g] += shared.sums[w][o][g][row_of_total()][feature_of_total()];
        }
      }
    }
    sync_block();
  }

  static CAPTION_DEVICE void store_totals(const Params& p, int part, int tile_row,
                                          const Totals& totals) {
    const Output& output = p.parts.part[part].output;
    const int feature = tile_row * kTileSize + feature_of_total();
    if (feature >= output.features) return;
    for (int g = 0; g < kGroups; ++g) {
      const int row = g * 8 + row_of_total();
      if (row >= p.rows) return;
      if constexpr (kOperands == 1) {
        store_sum(output, row, feature, totals[0][g]);
      } else {
        store_swiglu(output, p.parts.part[1].output, row, feature, totals[0][g], totals[1][g]);
      }
    }
  }
};

template <class T, int kGroups, bool kPairs>
void launch_few_rows(Stream& stream, const FewRowsParams& params, bool is_swiglu) {
  const Grid grid{.x = static_cast<unsigned>(params.parts.blocks)};
  if (is_swiglu) return launch<FewRows<T, kGroups, kPairs, 2>>(stream, grid, params);
  launch<FewRows<T, kGroups, kPairs, 1>>(stream, grid, params);
}

template <class T>
void launch_few_rows(Stream& stream, const FewRowsParams& params, bool is_swiglu, bool has_pairs) {
  if (params.rows <= 8) {
    if (has_pairs) return launch_few_rows<T, 1, true>(stream, params, is_swiglu);
    return launch_few_rows<T, 1, false>(stream, params, is_swiglu);
  }
  if (has_pairs) return launch_few_rows<T, 2, true>(stream, params, is_swiglu);
  launch_few_rows<T, 2, false>(stream, params, is_swiglu);
}

}  // namespace

void multiply_few_rows(Stream& stream, const DenseLayer& layer) {
  const ConstView x = layer.x;
  const FewRowsParams params{.parts = tiles_parts(layer, kTileSize),
                             .x = numbers_of(x),
                             .x_stride = x.row_stride(),
                             .rows = static_cast<int>(x.dim(0)),
                             .columns = static_cast<int>(x.dim(1)),
                             .steps = count_tiles(x.dim(1))};
  const auto pair_bytes = 2 * dtype_size_bytes(x.dtype());
  const bool has_pairs =
      reinterpret_cast<std::uintptr_t>(x.raw()) % pair_bytes == 0 && x.row_stride() % 2 == 0;
  if (TilesForm::of(layer.parts.front().weight).tiles().dtype == DType::kBF16) {
    launch_few_rows<BF16>(stream, params, layer.is_swiglu, has_pairs);
  } else {
    launch_few_rows<F16>(stream, params, layer.is_swiglu, has_pairs);
  }
}

}  // namespace caption::kernels::cuda
