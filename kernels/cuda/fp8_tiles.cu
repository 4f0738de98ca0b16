// The dense layer with e4m3 numbers of x and weights, for more rows than few, with the bits of
// kernels/cuda/fp8_few_rows.cu.
//
// A block computes 128 features of 128 rows, or 64 features of 64 rows, in stages of 64 columns,
// which asynchronous copies bring to shared memory. A warp has 64 features of 32 rows, or 32 of 32:
// it keeps the sums of a slice of K and of all slices apart.
//
// Traffic    of a block 128 bytes of codes and 128 of x per column from L2 for 16,384 products.
//            Neighbouring blocks share their features, then their rows of x.
// Measured on no GPU.
#include "kernels/cuda/code_tiles.cuh"
#include "kernels/cuda/numbers.cuh"

namespace caption::kernels::cuda {
namespace {

constexpr int kStepTiles = kE4M3StepColumns / 32;  // of a stage
constexpr int kRowUnits = kE4M3StepColumns / 16;   // units of 16 bytes of a stage's row of x

template <class S>
struct Fp8Tiles {
  static constexpr Gpus kGpus = kGpusOfE4M3;
  using Shape = S;
  static constexpr int kThreads = S::kThreads;
  using Params = CodeTilesParams;
  static constexpr int kTileUnits = S::kBlockTiles * kStepTiles * 32 / kThreads;
  static constexpr int kXUnits = S::kBlockRows * kRowUnits / kThreads;
  static_assert(kTileUnits * kThreads == S::kBlockTiles * kStepTiles * 32 &&
                kXUnits * kThreads == S::kBlockRows * kRowUnits);

  struct Stages {
    Bytes16 tiles[S::kStages][S::kBlockTiles][kStepTiles][32];
    // The unit u of a row is at u ^ row / 2 % 2 * 2, so that the lanes of four rows are in
    // different banks.
    Bytes16 x[S::kStages][S::kBlockRows][kRowUnits];
  };
  union Shared {
    Stages stages;
    Exchange<S> exchange;
  };
  // Where a thread's copies of a stage come from: the first of its units of 16 bytes of codes, and
  // of x, whose others follow at equal distances.
  struct Sources {
    const Bytes16* tile;
    const std::byte* x;
    bool has_tile[kTileUnits];
    bool has_x[kXUnits];
  };

  static CAPTION_DEVICE void run(const Params& params) {
    auto& shared = shared_memory<Shared>();
    const CodeParams& p = params.codes;
    const BlockPlace place = place_of_block<S>(p.parts, params.row_blocks, operands_of(p));
    Sources sources = sources_of(p, place);
    for (int i = 0; i < S::kStages - 1; ++i) copy_stage(p, shared.stages, sources, i, i);
    const bool has_rows = place.first_row + row_warp() * S::kGroups * 8 < p.rows;
    Sums<S> sums = {};
    Sums<S> totals = {};
    int slot = 0;
    int tiles_left = p.tiles_per_slice;
    for (int tile = 0; tile < p.tiles; tile += kStepTiles) {
      const int free_slot = slot == 0 ? S::kStages - 1 : slot - 1;
      wait_copies<S::kStages - 2>();
      sync_block();
      copy_stage(p, shared.stages, sources, tile / kStepTiles + S::kStages - 1, free_slot);
      if (has_rows) multiply_stage(shared.stages, slot, sums);
      slot = slot + 1 == S::kStages ? 0 : slot + 1;
      tiles_left -= kStepTiles;
      if (tiles_left == 0) {
        add_slice<S>(sums, totals);
        tiles_left = p.tiles_per_slice;
      }
    }
    wait_copies<0>();
    add_slice<S>(sums, totals);  // zeros after a whole slice, which change no sum
    const auto sum_of = [&totals](int i, int g, int e) { return totals[i][g].sum[e]; };
    scale_sums<S>(p, place, sum_of, sums);
    if (p.is_swiglu) {
      store_sums<S, 2>(p.parts, p.rows, place, shared.exchange, sums);
    } else {
      store_sums<S, 1>(p.parts, p.rows, place, shared.exchange, sums);
    }
  }

  static CAPTION_DEVICE int operands_of(const CodeParams& p) { return p.is_swiglu ? 2 : 1; }
  static CAPTION_DEVICE int feature_warp() { return warp_index() % S::kFeatureWarps; }
  static CAPTION_DEVICE int row_warp() { return warp_index() / S::kFeatureWarps; }
  static CAPTION_DEVICE int row_unit() { return thread_index() % kRowUnits; }
  static CAPTION_DEVICE int unit_at(int row, int unit) { return unit ^ row / 2 % 2 * 2; }
  // Tiles along features, and rows of x, between the units that a thread copies.
  static CAPTION_DEVICE int tile_stride() { return kThreads / 32 / kStepTiles; }
  static CAPTION_DEVICE int row_stride() { return kThreads / kRowUnits; }
  static_assert(kThreads / 32 / kStepTiles % 2 == 0);  // tiles of gate and up alternate
  static CAPTION_DEVICE int copied_tile() { return warp_index() / kStepTiles; }
  static CAPTION_DEVICE int copied_step_tile() { return warp_index() % kStepTiles; }
  static CAPTION_DEVICE int copied_row() { return thread_index() / kRowUnits; }

  static CAPTION_DEVICE Sources sources_of(const CodeParams& p, const BlockPlace& place) {
    Sources sources;
    const int operands = operands_of(p);
    const auto& part = p.parts.part[place.part + copied_tile() % operands];
    const int tile_row = place.first_tile + copied_tile() / operands;
    const std::int64_t tile = std::int64_t{tile_row} * p.tiles + copied_step_tile();
    sources.tile = part.weight.tiles + tile * 32 + lane_index();
    CAPTION_UNROLL
    for (int i = 0; i < kTileUnits; ++i) {
      sources.has_tile[i] =
          (tile_row + i * tile_stride() / operands) * kTileSize < part.output.features;
    }
    const int row = place.first_row + copied_row();
    sources.x = p.x + std::int64_t{row} * p.packed_columns + row_unit() * 16;
    CAPTION_UNROLL
    for (int i = 0; i < kXUnits; ++i) sources.has_x[i] = row + i * row_stride() < p.rows;
    return sources;
  }

  // Begins the copies of a stage, with zeros for what is not inside the operands, and makes them a
  // group, which is empty after the last stage.
  static CAPTION_DEVICE void copy_stage(const CodeParams& p, Stages& stages, Sources& sources,
                                        int stage, int slot) {
    if (stage * kStepTiles < p.tiles) {
      const std::int64_t units = std::int64_t{tile_stride() / operands_of(p) * 32} * p.tiles;
      CAPTION_UNROLL
      for (int i = 0; i < kTileUnits; ++i) {
        Bytes16(&tile)[kStepTiles][32] = stages.tiles[slot][copied_tile() + i * tile_stride()];
        copy_16_async(&tile[copied_step_tile()][lane_index()], sources.tile + i * units,
                      sources.has_tile[i]);
      }
      sources.tile += kStepTiles * 32;
      const std::int64_t bytes = std::int64_t{row_stride()} * p.packed_columns;
      CAPTION_UNROLL
      for (int i = 0; i < kXUnits; ++i) {
        const int row = copied_row() + i * row_stride();
        copy_16_async(&stages.x[slot][row][unit_at(row, row_unit())], sources.x + i * bytes,
                      sources.has_x[i]);
      }
      sources.x += kE4M3StepColumns;
    }
    commit_copies();
  }

  static CAPTION_DEVICE void multiply_stage(const Stages& stages, int slot, Sums<S>& sums) {
    FragmentB8 xs[S::kGroups][kStepTiles];
    const int row = row_warp() * S::kGroups * 8 + lane_index() / 4;
    CAPTION_UNROLL
    for (int g = 0; g < S::kGroups; ++g) {
      CAPTION_UNROLL
      for (int k = 0; k < kStepTiles; ++k) {
        // The lane's 8 columns of 32.
        const Bytes16& unit =
            stages.x[slot][row + g * 8][unit_at(row, k * 2 + lane_index() % 4 / 2)];
        const auto eight = load(
            reinterpret_cast<const Packed<std::uint32_t, 2>*>(unit.word + lane_index() % 2 * 2));
        xs[g][k] = {{eight.x[0], eight.x[1]}};
      }
    }
    CAPTION_UNROLL
    for (int i = 0; i < S::kTiles; ++i) {
      FragmentA8 a[kStepTiles];
      CAPTION_UNROLL
      for (int k = 0; k < kStepTiles; ++k) {
        const Bytes16 codes =
            load(&stages.tiles[slot][feature_warp() * S::kTiles + i][k][lane_index()]);
        a[k] = {{codes.word[0], codes.word[1], codes.word[2], codes.word[3]}};
      }
      CAPTION_UNROLL
      for (int g = 0; g < S::kGroups; ++g) {
        FragmentC products = {};
        CAPTION_UNROLL
        for (int k = 0; k < kStepTiles; ++k) mma_e4m3(products, a[k], xs[g][k]);
        CAPTION_UNROLL
        for (int e = 0; e < 4; ++e) sums[i][g].sum[e] += products.sum[e];
      }
    }
  }
};

}  // namespace

bool has_e4m3_products(int compute_capability) {
  return compute_capability == 0 || kGpusOfE4M3.contains(compute_capability);
}

// Shared memory allows a block 99 KiB on sm_89.
void multiply_e4m3_tiles(Stream& stream, const CodeParams& params, CodeBlocks blocks) {
  launch_tiles<Fp8Tiles<GemmShape<4, 4, 2, 4, 5>>, Fp8Tiles<GemmShape<2, 4, 2, 2, 5>>>(
      stream, params, blocks);
}

}  // namespace caption::kernels::cuda
