// The dense layer for more rows than few, by tiles of bf16 and products of warpgroups, with the
// bits of kernels/cuda/tile_gemm.cu.
//
// A block, two warpgroups, computes 128 features of 192 rows in stages of 64 columns, which
// asynchronous copies bring to shared memory. The weight's tiles are the fragments of the first
// operand, in registers; x is the second, in shared memory. A warp has one tile of features and all
// rows; it keeps the sums of a slice of K and the total of slices apart, which together with the
// fragments are the most that 255 registers hold. A warpgroup has up to two halves of a stage under
// way, so that the tensor cores have work while it waits at the barrier.
//
// Traffic    of a block 640 bytes per column from L2 for 24,576 products. Neighbouring blocks share
//            their features, then their rows of x.
// Measured on no GPU.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tile_block.cuh"
#include "kernels/cuda/tile_gemm.h"
#include "kernels/cuda/warpgroup.cuh"

namespace caption::kernels::cuda {
namespace {

constexpr int kStageColumns = 8 * kSwizzledUnits;
constexpr int kStageSteps = kStageColumns / kTileSize;
constexpr int kHalfSteps = kStageSteps / 2;
constexpr int kStagesPerSlice = kSliceColumns / kStageColumns;
static_assert(kStagesPerSlice * kStageColumns == kSliceColumns);

struct Shape : GemmShape<1, kWarpgroupGroups, 8, 1, 5> {
  static constexpr int kExchangedGroups = kWarpgroupGroups;
};
// Stages whose copies are under way. The products of the stage before may be, too, so that a stage
// is overwritten only after the next one.
constexpr int kStagesAhead = Shape::kStages - 2;
static_assert(kStagesAhead > 0);

// Where a thread's copies of a stage come from: the first of its units of 16 bytes of weights, and
// of x, whose others follow at equal distances.
struct CopySources {
  const Bytes16* weight;
  const std::uint16_t* x;
  int features;  // of the part, from the first unit's on
  int rows;      // of x, from the first unit's on
};

template <int kOperands>
struct WarpgroupGemm {
  static constexpr Gpus kGpus = kGpusOfWarpgroups;
  static constexpr int kThreads = Shape::kThreads;
  using Params = GemmParams;
  static constexpr int kWeightUnits = Shape::kBlockTiles * kStageSteps * 32 / kThreads;
  static constexpr int kXUnits = Shape::kBlockRows * kSwizzledUnits / kThreads;
  // Tiles along features, and rows of x, between the units that a thread copies. Tiles of gate and
  // up alternate.
  static constexpr int kTileDistance = kThreads / 32 / kStageSteps;
  static constexpr int kRowDistance = kThreads / kSwizzledUnits;
  static_assert(kTileDistance % kOperands == 0 && kRowDistance % kSwizzledUnits == 0);
  static_assert(kWeightUnits * kTileDistance == Shape::kBlockTiles);
  static_assert(kXUnits * kRowDistance == Shape::kBlockRows);

  struct alignas(1024) Stages {
    Bytes16 x[Shape::kStages][Shape::kBlockRows][kSwizzledUnits];
    Bytes16 weight[Shape::kStages][Shape::kBlockTiles][kStageSteps][32];
  };
  union Shared {
    Stages stages;
    Exchange<Shape> exchange;
  };

  static CAPTION_DEVICE void run(const Params& p) {
    auto& shared = shared_memory<Shared>();
    const BlockPlace place = place_of_block<Shape>(p.parts, p.row_blocks, kOperands);
    CopySources sources = sources_of(p, place);
    for (int i = 0; i < kStagesAhead; ++i) copy_stage(p, shared.stages, sources, i, i);
    const int num_stages = (p.steps + kStageSteps - 1) / kStageSteps;
    Sums<Shape> totals = {};
    Sums<Shape> sums = {};
    FragmentA tiles[2][kHalfSteps];  // of the halves of a stage
    int slot = 0;
    for (int stage = 0; stage < num_stages; ++stage) {
      wait_copies<kStagesAhead - 1>();
      show_to_products();
      sync_block();
      const int free_slot = slot < 2 ? slot + kStagesAhead : slot - 2;
      copy_stage(p, shared.stages, sources, stage + kStagesAhead, free_slot);
      CAPTION_UNROLL
      for (int half = 0; half < 2; ++half) {
        multiply_half(shared.stages, slot, half, tiles[half], sums[0]);
        wait_products<1>(sums[0]);
      }
      slot = slot + 1 == Shape::kStages ? 0 : slot + 1;
      if ((stage + 1) % kStagesPerSlice == 0) {
        wait_products<0>(sums[0]);
        add_slice<Shape>(sums, totals);
      }
    }
    wait_copies<0>();
    wait_products<0>(sums[0]);
    add_slice<Shape>(sums, totals);  // zeros after a whole slice, which change no sum
    store_sums<Shape, kOperands>(p.parts, p.rows, place, shared.exchange, totals);
  }

  static CAPTION_DEVICE int copied_tile() { return warp_index() / kStageSteps; }
  static CAPTION_DEVICE int copied_step() { return warp_index() % kStageSteps; }
  static CAPTION_DEVICE int copied_row() { return thread_index() / kSwizzledUnits; }
  static CAPTION_DEVICE int copied_unit() { return thread_index() % kSwizzledUnits; }

  static CAPTION_DEVICE CopySources sources_of(const Params& p, const BlockPlace& place) {
    const auto& part = p.parts.part[place.part + copied_tile() % kOperands];
    const int tile = place.first_tile + copied_tile() / kOperands;
    const int row = place.first_row + copied_row();
    return {
        .weight = part.weight + (std::int64_t{tile} * p.steps + copied_step()) * 32 + lane_index(),
        .x = p.x + row * p.x_stride + copied_unit() * 8,
        .features = part.output.features - tile * kTileSize,
        .rows = p.rows - row};
  }

  // Begins the copies of a stage, with zeros beyond the operands, and makes them a group, which is
  // empty after the last stage.
  static CAPTION_DEVICE void copy_stage(const Params& p, Stages& stages, CopySources& sources,
                                        int stage, int slot) {
    if (stage * kStageSteps < p.steps) {
      constexpr int kTiles = kTileDistance / kOperands;
      const std::int64_t units = std::int64_t{p.steps} * (kTiles * 32);
      const bool has_step = stage * kStageSteps + copied_step() < p.steps;
      CAPTION_UNROLL
      for (int i = 0; i < kWeightUnits; ++i) {
        copy_16_async(
            &stages.weight[slot][copied_tile() + i * kTileDistance][copied_step()][lane_index()],
            sources.weight + i * units, has_step && i * kTiles * kTileSize < sources.features);
      }
      const bool has_columns = stage * kStageColumns + copied_unit() * 8 < p.x_columns;
      const int unit = swizzled_unit(copied_row(), copied_unit());
      CAPTION_UNROLL
      for (int i = 0; i < kXUnits; ++i) {
        copy_16_async(&stages.x[slot][copied_row() + i * kRowDistance][unit],
                      sources.x + i * kRowDistance * p.x_stride,
                      has_columns && i * kRowDistance < sources.rows);
      }
      sources.weight += kStageSteps * 32;
      sources.x += kStageColumns;
    }
    commit_copies();
  }

  // Begins the products of a half of a stage and makes them a group.
  static CAPTION_DEVICE void multiply_half(const Stages& stages, int slot, int half,
                                           FragmentA (&tiles)[kHalfSteps],
                                           FragmentC (&sums)[kWarpgroupGroups]) {
    CAPTION_UNROLL
    for (int i = 0; i < kHalfSteps; ++i) {
      const Bytes16 tile =
          load(&stages.weight[slot][warp_index()][half * kHalfSteps + i][lane_index()]);
      tiles[i] = {{tile.word[0], tile.word[1], tile.word[2], tile.word[3]}};
    }
    begin_products();
    CAPTION_UNROLL
    for (int i = 0; i < kHalfSteps; ++i) {
      multiply_warpgroup(sums, tiles[i], &stages.x[slot][0][0], half * kHalfSteps + i);
    }
    commit_products();
  }
};

template <int kOperands>
void launch_gemm(Stream& stream, const GemmParams& params) {
  launch<WarpgroupGemm<kOperands>>(stream, {.x = static_cast<unsigned>(count_blocks(params))},
                                   params);
}

}  // namespace

// A block takes as many clocks as one of tile_gemm.cu's 128 rows, in which L1 is the limit, where
// L2 is it here: 256 per step of K (lib/bench/cuda_tiles.cpp). So it is faster for more rows than
// these. There are 132 multiprocessors, each of which has one block at a time, so that of the
// rounds of blocks two thirds have to be full.
bool takes_warpgroups(const Stream& stream, const DenseLayer& layer) {
  constexpr std::int64_t kTileRows = 128;
  constexpr std::int64_t kMultiprocessors = 132;
  const bool is_possible = kGpusOfWarpgroups.contains(stream.context().compute_capability);
  if (!is_possible || layer.x.dim(0) <= kTileRows) return false;
  const std::int64_t blocks = count_blocks(gemm_params<Shape>(layer));
  const std::int64_t rounds = (blocks + kMultiprocessors - 1) / kMultiprocessors;
  return 3 * blocks >= 2 * rounds * kMultiprocessors;
}

void multiply_by_warpgroups(Stream& stream, const DenseLayer& layer) {
  GemmParams params = gemm_params<Shape>(layer);
  take_rows(stream, layer, 0, params);
  if (layer.is_swiglu) return launch_gemm<2>(stream, params);
  launch_gemm<1>(stream, params);
}

}  // namespace caption::kernels::cuda
