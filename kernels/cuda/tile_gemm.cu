// The dense layer for more rows than few, by tiles of 16-bit weights.
//
// A block computes 128 features of 128 rows, or for at most 64 rows 64 of 64, in stages of 32
// columns, which asynchronous copies bring to shared memory. The weight's tiles are fragments
// already; x comes through ldmatrix. A warp keeps the sums of a slice of K and the total of slices
// apart. Where there are too few blocks for a GPU, each slice has blocks of its own, whose sums go
// through memory and are added by another kernel: the order, and so the bits, are the same.
//
// x is rounded to the weight's dtype by a kernel before, unless it has that dtype and rows that
// 16-byte copies can read.
//
// Traffic    of a block 512 bytes per column from L2 for 16,384 products, with at most 64 rows 256
//            for 4,096. Neighbouring blocks share their features, then their rows of x.
// Issued     108 instructions per 32 HMMA, with at most 64 rows 88 per 16 (sm_80, nvcc 13.0).
// Measured on no GPU.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/tile_block.cuh"
#include "kernels/cuda/tile_gemm.h"
#include "kernels/step_scratch.h"

namespace caption::kernels::cuda {
namespace {

constexpr int kStageColumns = 32;
constexpr int kStageSteps = kStageColumns / kTileSize;
constexpr int kRowUnits = kStageColumns / 8;  // units of 16 bytes in a stage's row of x
constexpr int kStagesPerSlice = kSliceColumns / kStageColumns;

using LargeShape = GemmShape<4, 4, 2, 4, 4>;
using SmallShape = GemmShape<2, 4, 2, 2, 6>;

// Below this number of blocks, slices have blocks of their own: about two blocks, or one, for each
// of the multiprocessors of the largest card.
template <class S>
constexpr int kEnoughBlocks = S::kRowWarps == 2 ? 264 : 128;

// What the engine reserves memory for.
template <class S>
constexpr bool is_reserved_as(const ProductBlocks& blocks) {
  return S::kBlockRows == blocks.rows && S::kBlockTiles * kTileSize == blocks.features &&
         kEnoughBlocks<S> == blocks.enough &&
         S::kTiles * S::kGroups * S::kThreads * 16 == blocks.sum_bytes();
}
static_assert(is_reserved_as<SmallShape>(kSmallProductBlocks) &&
              is_reserved_as<LargeShape>(kLargeProductBlocks) &&
              kSliceColumns == kProductSliceColumns);

// Where a thread's copies of a stage come from: units of 16 bytes.
template <class S>
struct CopySources {
  static constexpr int kWeightUnits = S::kBlockTiles * kStageSteps * 32 / S::kThreads;
  static constexpr int kXUnits = S::kBlockRows * kRowUnits / S::kThreads;
  const Bytes16* weight[kWeightUnits];
  const std::uint16_t* x[kXUnits];
  bool has_weight[kWeightUnits];
  bool has_x[kXUnits];
};

// T is the weight's type. With kIsSplit, block_y() is the block's slice.
template <class T, class S, int kOperands, bool kIsSplit>
struct TileGemm {
  static constexpr Gpus kGpus = kGpusOfProducts<T>;
  static constexpr int kThreads = S::kThreads;
  using Params = GemmParams;
  struct Stages {
    Bytes16 weight[S::kStages][S::kBlockTiles][kStageSteps * 32];
    // The unit u of a row is at u ^ row / 2 % 4, so that ldmatrix meets each bank once.
    Bytes16 x[S::kStages][S::kBlockRows][kRowUnits];
  };
  union Shared {
    Stages stages;
    Exchange<S> exchange;
  };
  using Sources = CopySources<S>;

  static CAPTION_DEVICE void run(const Params& p) {
    auto& shared = shared_memory<Shared>();
    const BlockPlace place = place_of_block<S>(p.parts, p.row_blocks, kOperands);
    const int num_stages = (p.steps + kStageSteps - 1) / kStageSteps;
    const int begin = kIsSplit ? block_y() * kStagesPerSlice : 0;
    const int end =
        kIsSplit && begin + kStagesPerSlice < num_stages ? begin + kStagesPerSlice : num_stages;
    Sources sources = sources_of(p, place, begin);
    for (int i = 0; i < S::kStages - 1; ++i) {
      copy_stage(p, shared.stages, sources, begin + i, end, i);
    }
    const bool has_rows = place.first_row + row_warp() * S::kGroups * 8 < p.rows;
    Sums<S> totals = {};
    Sums<S> sums = {};
    int slot = 0;
    for (int stage = begin; stage < end; ++stage) {
      wait_copies<S::kStages - 2>();
      sync_block();
      const int free_slot = slot == 0 ? S::kStages - 1 : slot - 1;
      copy_stage(p, shared.stages, sources, stage + S::kStages - 1, end, free_slot);
      if (has_rows) multiply_stage(shared.stages, slot, sums);
      slot = slot + 1 == S::kStages ? 0 : slot + 1;
      if (!kIsSplit && (stage + 1) % kStagesPerSlice == 0) add_slice<S>(sums, totals);
    }
    wait_copies<0>();
    if constexpr (kIsSplit) {
      store_partials(p, sums);
    } else {
      add_slice<S>(sums, totals);  // zeros after a whole slice, which change no sum
      store_sums<S, kOperands>(p.parts, p.rows, place, shared.exchange, totals);
    }
  }

  static CAPTION_DEVICE int feature_warp() { return warp_index() % S::kFeatureWarps; }
  static CAPTION_DEVICE int row_warp() { return warp_index() / S::kFeatureWarps; }

  static CAPTION_DEVICE Sources sources_of(const Params& p, const BlockPlace& place, int stage) {
    Sources sources;
    CAPTION_UNROLL
    for (int i = 0; i < Sources::kWeightUnits; ++i) {
      const int unit = thread_index() + i * kThreads;
      const int block_tile = unit / (kStageSteps * 32);
      const auto& part = p.parts.part[place.part + block_tile % kOperands];
      const int tile = place.first_tile + block_tile / kOperands;
      sources.has_weight[i] = tile * kTileSize < part.output.features;
      sources.weight[i] = part.weight +
                          (static_cast<std::int64_t>(tile) * p.steps + stage * kStageSteps) * 32 +
                          unit % (kStageSteps * 32);
    }
    CAPTION_UNROLL
    for (int i = 0; i < Sources::kXUnits; ++i) {
      const int row = place.first_row + (thread_index() + i * kThreads) / kRowUnits;
      sources.has_x[i] = row < p.rows;
      sources.x[i] = p.x + row * p.x_stride + stage * kStageColumns + x_unit() * 8;
    }
    return sources;
  }

  static CAPTION_DEVICE int x_unit() { return thread_index() % kRowUnits; }

  // Begins the copies of a stage, with zeros beyond the operands, and makes them a group, which is
  // empty from `end` on.
  static CAPTION_DEVICE void copy_stage(const Params& p, Stages& stages, Sources& sources,
                                        int stage, int end, int slot) {
    if (stage < end) {
      const int step = stage * kStageSteps + thread_index() / 32 % kStageSteps;
      const int column = stage * kStageColumns + x_unit() * 8;
      CAPTION_UNROLL
      for (int i = 0; i < Sources::kWeightUnits; ++i) {
        const int unit = thread_index() + i * kThreads;
        copy_16_async(&stages.weight[slot][0][0] + unit, sources.weight[i],
                      sources.has_weight[i] && step < p.steps);
        sources.weight[i] += kStageSteps * 32;
      }
      CAPTION_UNROLL
      for (int i = 0; i < Sources::kXUnits; ++i) {
        const int row = (thread_index() + i * kThreads) / kRowUnits;
        copy_16_async(&stages.x[slot][row][x_unit() ^ row / 2 % 4], sources.x[i],
                      sources.has_x[i] && column < p.x_columns);
        sources.x[i] += kStageColumns;
      }
    }
    commit_copies();
  }

  static CAPTION_DEVICE void multiply_stage(const Stages& stages, int slot, Sums<S>& sums) {
    // What a lane passes to ldmatrix: a row of one of two groups, and a half of a tile's columns.
    const int row = row_warp() * S::kGroups * 8 + lane_index() / 16 * 8 + lane_index() % 8;
    const int unit = lane_index() / 8 % 2 ^ row / 2 % 4;
    CAPTION_UNROLL
    for (int step = 0; step < kStageSteps; ++step) {
      FragmentB xs[S::kGroups];
      CAPTION_UNROLL
      for (int g = 0; g < S::kGroups; g += 2) {
        const FragmentA pair = ldmatrix_x4(&stages.x[slot][row + g * 8][unit ^ step * 2]);
        xs[g] = {{pair.pair[0], pair.pair[1]}};
        xs[g + 1] = {{pair.pair[2], pair.pair[3]}};
      }
      CAPTION_UNROLL
      for (int i = 0; i < S::kTiles; ++i) {
        const Bytes16 tile =
            load(&stages.weight[slot][feature_warp() * S::kTiles + i][step * 32 + lane_index()]);
        const FragmentA a = {{tile.word[0], tile.word[1], tile.word[2], tile.word[3]}};
        CAPTION_UNROLL
        for (int g = 0; g < S::kGroups; ++g) multiply_tile(T{}, sums[i][g], a, xs[g]);
      }
    }
  }

  static CAPTION_DEVICE void store_partials(const Params& p, const Sums<S>& sums) {
    const std::int64_t block = static_cast<std::int64_t>(block_y()) * grid_x() + block_x();
    Packed<float, 4>* const to =
        p.partials + block * S::kTiles * S::kGroups * kThreads + thread_index();
    CAPTION_UNROLL
    for (int i = 0; i < S::kTiles; ++i) {
      CAPTION_UNROLL
      for (int g = 0; g < S::kGroups; ++g) {
        const float(&sum)[4] = sums[i][g].sum;
        store(to + (i * S::kGroups + g) * kThreads,
              Packed<float, 4>{{sum[0], sum[1], sum[2], sum[3]}});
      }
    }
  }
};

// Adds the sums that blocks of slices left in memory, in their order, and stores them.
template <class S, int kOperands>
struct AddSlices {
  static constexpr int kThreads = S::kThreads;
  using Params = GemmParams;
  using Shared = Exchange<S>;

  static CAPTION_DEVICE void run(const Params& p) {
    constexpr int kFragments = S::kTiles * S::kGroups;
    Sums<S> totals = {};
    const int slices = (p.steps + kSliceSteps - 1) / kSliceSteps;
    for (int slice = 0; slice < slices; ++slice) {
      const std::int64_t block = static_cast<std::int64_t>(slice) * grid_x() + block_x();
      const Packed<float, 4>* const from =
          p.partials + block * kFragments * kThreads + thread_index();
      CAPTION_UNROLL
      for (int i = 0; i < kFragments; ++i) {
        const Packed<float, 4> sum = load(from + i * kThreads);
        CAPTION_UNROLL
        for (int e = 0; e < 4; ++e) totals[i / S::kGroups][i % S::kGroups].sum[e] += sum.x[e];
      }
    }
    store_sums<S, kOperands>(p.parts, p.rows, place_of_block<S>(p.parts, p.row_blocks, kOperands),
                             shared_memory<Shared>(), totals);
  }
};

template <class T, class S, int kOperands>
void launch_gemm(Stream& stream, GemmParams params, int slices) {
  const auto blocks = static_cast<unsigned>(count_blocks(params));
  if (slices == 1) {
    launch<TileGemm<T, S, kOperands, false>>(stream, {.x = blocks}, params);
    return;
  }
  launch<TileGemm<T, S, kOperands, true>>(stream, {.x = blocks, .y = static_cast<unsigned>(slices)},
                                          params);
  launch<AddSlices<S, kOperands>>(stream, {.x = blocks}, params);
}

template <class S>
int slices_with_blocks(const DenseLayer& layer, std::int64_t blocks, SliceBlocks slice_blocks) {
  const bool is_needed = slice_blocks == SliceBlocks::kOwn || blocks < kEnoughBlocks<S>;
  return slice_blocks != SliceBlocks::kNone && is_needed ? count_slices(layer.x.dim(1)) : 1;
}

template <class T, class S>
void multiply_gemm(Stream& stream, const DenseLayer& layer, SliceBlocks slice_blocks) {
  GemmParams params = gemm_params<S>(layer);
  const std::int64_t blocks = count_blocks(params);
  const int slices = slices_with_blocks<S>(layer, blocks, slice_blocks);
  const std::int64_t partial_bytes =
      slices == 1 ? 0 : slices * blocks * S::kTiles * S::kGroups * S::kThreads * 16;
  take_rows(stream, layer, partial_bytes, params);
  if (layer.is_swiglu) return launch_gemm<T, S, 2>(stream, params, slices);
  launch_gemm<T, S, 1>(stream, params, slices);
}

template <class T>
void multiply_gemm(Stream& stream, const DenseLayer& layer, SliceBlocks slice_blocks) {
  if (layer.x.dim(0) <= SmallShape::kBlockRows) {
    multiply_gemm<T, SmallShape>(stream, layer, slice_blocks);
  } else {
    multiply_gemm<T, LargeShape>(stream, layer, slice_blocks);
  }
}

}  // namespace

void take_rows(Stream& stream, const DenseLayer& layer, std::int64_t more_bytes,
               GemmParams& params) {
  const ConstView x = layer.x;
  const DType dtype = TilesForm::of(layer.parts.front().weight).tiles().dtype;
  const bool is_rounded = x.dtype() == dtype && allows_packs(x, 8);
  const std::int64_t rounded_bytes =
      is_rounded ? 0 : round_up(x.dim(0) * params.x_columns * 2, sizeof(Bytes16));
  std::byte* const scratch = stream.scratch(static_cast<std::size_t>(rounded_bytes + more_bytes));
  params.partials = reinterpret_cast<Packed<float, 4>*>(scratch + rounded_bytes);
  if (is_rounded) {
    params.x = static_cast<const std::uint16_t*>(x.raw());
    params.x_stride = x.row_stride();
  } else {
    auto* const rounded = reinterpret_cast<std::uint16_t*>(scratch);
    round_rows(stream, x, dtype, rounded, params.x_columns);
    params.x = rounded;
    params.x_stride = params.x_columns;
  }
}

void multiply_many_rows(Stream& stream, const DenseLayer& layer, SliceBlocks slice_blocks) {
  if (slice_blocks == SliceBlocks::kAsNeeded && takes_warpgroups(stream, layer)) {
    return multiply_by_warpgroups(stream, layer);
  }
  if (TilesForm::of(layer.parts.front().weight).tiles().dtype == DType::kBF16) {
    multiply_gemm<BF16>(stream, layer, slice_blocks);
  } else {
    multiply_gemm<F16>(stream, layer, slice_blocks);
  }
}

void multiply_tiles(Stream& stream, const DenseLayer& layer) {
  if (layer.x.dim(0) <= kMostFewRows) return multiply_few_rows(stream, layer);
  multiply_many_rows(stream, layer, SliceBlocks::kAsNeeded);
}

}  // namespace caption::kernels::cuda
