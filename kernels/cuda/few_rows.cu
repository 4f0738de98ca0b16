// The dense layer for few rows, as in decoding, whose time is that of reading the weights.
//
// A block computes 16 features of all rows (of SwiGLU both parts'). Its four warps take the slices
// of K in turn; a warp's weights come through a ring of asynchronous copies, whose 16 bytes each
// lane reads itself, so the ring needs no barrier. A warp rounds x once, 64 columns at a time, and
// takes it from shared memory through ldmatrix; x that has the weights' type already it only
// copies, and loads one chunk ahead. Where x is to be normalised, every block finds the rows'
// factors itself while its first copies are under way. In a graph these copies begin before the
// launch before has ended.
//
// Traffic    2 bytes per weight, once; x once per block, from L1 and L2.
// In flight  10 copies of 512 bytes per warp: 41 KB per multiprocessor with two blocks, where an
//            H200 needs 33 KB for its bandwidth. Before sm_80, where weights are f16, a warp has
//            the tiles of its next 64 columns in registers, 2 KB and for SwiGLU 4 KB, while it
//            multiplies.
// Measured on no GPU.
#include <type_traits>

#include "kernels/cuda/dependent_launch.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/multiply_tiles.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rms.cuh"

namespace caption::kernels::cuda {
namespace {

constexpr int kFewRowsWarps = 4;
// Two blocks of 8 rows fit the 64 KB of a T4.
constexpr int kStages = 11;
// Columns of x that a warp has in shared memory: of four tiles.
constexpr int kChunkColumns = 64;
constexpr int kChunkSteps = kChunkColumns / kTileSize;
constexpr int kChunkUnits = kChunkColumns / 8;  // units of 16 bytes

struct FewRowsParams {
  TilesParts parts;
  ConstNumbers x;  // f32 with a norm
  std::int64_t x_stride;
  ConstNumbers norm;  // the weight of x's rms_norm(), [columns], or null
  float eps;
  int rows;
  int columns;
  int steps;        // tiles along K
  bool is_rounded;  // x has the weights' type, and is read 16 bytes at a time
};

// T is the weights' type; kGroups groups of 8 rows; a lane loads kPack elements of x at a time;
// kOperands is 2 for SwiGLU, otherwise 1.
template <class T, int kGroups, int kPack, int kOperands>
struct FewRows {
  static constexpr Gpus kGpus = kGpusOfProducts<T>;
  // A warp's weights come by asynchronous copies to a ring in shared memory, or to registers where
  // GPUs lack such copies.
  static constexpr bool kHasRing = std::is_same_v<T, BF16>;
  static constexpr int kThreads = 32 * kFewRowsWarps;
  // Floats from a row's features to the next row's: neither the stores of fragments nor the loads
  // of add_slices() meet in a bank.
  static constexpr int kRowStride = 20;
  using Params = FewRowsParams;
  // What a warp multiplies, and then the sums of its slice.
  union Work {
    Bytes16 x[8 * kGroups][kChunkUnits + 1];  // ldmatrix meets each bank once
    float sums[kOperands][kGroups][8][kRowStride];
  };
  struct Shared {
    Bytes16 ring[kFewRowsWarps][kHasRing ? kStages : 1][32];
    Work work[kFewRowsWarps];
    // For each row that is normalised: the sum of squares per warp, and the factor.
    float squares[kFewRowsWarps][8 * kGroups];
    float factor[8 * kGroups];
  };
  using Sums = FragmentC[kOperands][kGroups];
  using Totals = float[kOperands][kGroups];
  using Ring = Bytes16[kStages][32];
  using ChunkTiles = Bytes16[kChunkSteps][kOperands];   // the lane's of the warp's next chunk
  static constexpr int kRowsAtOnce = 32 / kChunkUnits;  // rows of a chunk that a warp loads at once
  // A lane's units of a chunk of rounded x: of every kRowsAtOnce-th row.
  static constexpr int kLaneUnits = 8 * kGroups / kRowsAtOnce;
  using RoundedUnits = Bytes16[kLaneUnits];

  // Where a lane's next copies come from, and where the next tile to multiply is.
  struct Cursor {
    const Bytes16* from[kOperands];
    int step;
    int slot;  // index in the ring
  };

  static CAPTION_DEVICE void run(const Params& p) {
    auto& shared = shared_memory<Shared>();
    const int part = p.parts.part_of(block_x());
    const int tile_row = block_x() - p.parts.part[part].first_block;
    Work& work = shared.work[warp_index()];
    Cursor cursor = first_tiles(p, part, tile_row);
    [[maybe_unused]] ChunkTiles ahead;
    if constexpr (kHasRing) {
      Ring& ring = shared.ring[warp_index()];
      CAPTION_UNROLL
      for (int i = 0; i < kStages - 1; ++i) copy_tile(p, ring[i], cursor, i % kOperands);
    } else {
      load_tiles(p, cursor, ahead);
    }
    wait_for_launches_before();  // one of them makes x
    RoundedUnits x_ahead;
    if (p.is_rounded) load_rounded(p, warp_index() * kSliceSteps, x_ahead);
    if (p.norm.begin != nullptr) find_factors(p, shared);
    Totals totals = {};
    for (int first = 0; first * kSliceSteps < p.steps; first += kFewRowsWarps) {
      Sums sums = {};
      const int begin = (first + warp_index()) * kSliceSteps;
      const int end = begin + kSliceSteps < p.steps ? begin + kSliceSteps : p.steps;
      CAPTION_NO_UNROLL
      for (int step = begin; step < end; step += kChunkSteps) {
        sync_warp();  // all lanes have read the chunk before
        if (p.is_rounded) {
          store_rounded(p, work, x_ahead);
          const bool is_last = step + kChunkSteps >= end;
          const int next_slice = begin + kFewRowsWarps * kSliceSteps;
          load_rounded(p, is_last ? next_slice : step + kChunkSteps, x_ahead);
        } else {
          load_chunk(p, work, shared.factor, step * kTileSize);
        }
        sync_warp();
        if constexpr (kHasRing) {
          multiply_chunk(p, shared.ring[warp_index()], work, cursor, end - step, sums);
        } else {
          multiply_ahead(p, work, cursor, ahead, end - step, sums);
        }
      }
      add_slices(shared, sums, totals);
    }
    wait_copies<0>();
    store_totals(p, part, tile_row, totals);
  }

  // The first tiles of the warp's first slice.
  static CAPTION_DEVICE Cursor first_tiles(const Params& p, int part, int tile_row) {
    Cursor cursor;
    cursor.step = warp_index() * kSliceSteps;
    cursor.slot = 0;
    const std::int64_t tile = static_cast<std::int64_t>(tile_row) * p.steps + cursor.step;
    CAPTION_UNROLL
    for (int o = 0; o < kOperands; ++o) {
      cursor.from[o] = p.parts.part[part + o].weight + tile * 32 + lane_index();
    }
    return cursor;
  }

  // Begins the copy of the warp's next tile, if there is one. Each call commits one group of
  // copies, which may be empty. The tiles of gate and up alternate.
  static CAPTION_DEVICE void copy_tile(const Params& p, Bytes16 (&to)[32], Cursor& cursor,
                                       int operand) {
    if (cursor.step < p.steps) copy_16_async(&to[lane_index()], cursor.from[operand], true);
    commit_copies();
    if (operand + 1 == kOperands) go_on(cursor);
  }

  // Loads the tiles of the warp's next chunk, with zeros beyond the matrix.
  static CAPTION_DEVICE void load_tiles(const Params& p, Cursor& cursor, ChunkTiles& tiles) {
    CAPTION_UNROLL
    for (int step = 0; step < kChunkSteps; ++step) {
      CAPTION_UNROLL
      for (int o = 0; o < kOperands; ++o) {
        tiles[step][o] = Bytes16{};
        if (cursor.step < p.steps) tiles[step][o] = load_once(cursor.from[o]);
      }
      go_on(cursor);
    }
  }

  static CAPTION_DEVICE void go_on(Cursor& cursor) {
    int steps = 1;
    // The slices between are the other warps'.
    if ((cursor.step + 1) % kSliceSteps == 0) steps += (kFewRowsWarps - 1) * kSliceSteps;
    cursor.step += steps;
    CAPTION_UNROLL
    for (int o = 0; o < kOperands; ++o) cursor.from[o] += steps * 32;
  }

  // As kernels/cuda/rms.cuh says, with the threads of the block.
  static CAPTION_DEVICE void find_factors(const Params& p, Shared& shared) {
    static_assert(kThreads == kNormThreads);
    constexpr int kRowsAtOnce = 4;
    CAPTION_NO_UNROLL
    for (int first = 0; first < p.rows; first += kRowsAtOnce) {
      float squares[kRowsAtOnce] = {};
      for (int c = thread_index() * kPack; c < p.columns; c += kThreads * kPack) {
        CAPTION_UNROLL
        for (int i = 0; i < kRowsAtOnce; ++i) {
          if (first + i >= p.rows) continue;
          const auto* const from = static_cast<const float*>(p.x.begin) + (first + i) * p.x_stride;
          const auto x = load(reinterpret_cast<const Packed<float, kPack>*>(from + c));
          for (int j = 0; j < kPack; ++j) squares[i] = fused(x.x[j], x.x[j], squares[i]);
        }
      }
      CAPTION_UNROLL
      for (int i = 0; i < kRowsAtOnce; ++i) {
        const float sum = sum_of_warp(squares[i]);
        const bool has_row = first + i < p.rows;
        if (has_row && lane_index() == 0) shared.squares[warp_index()][first + i] = sum;
      }
    }
    sync_block();
    if (thread_index() < p.rows) {
      float sum = shared.squares[0][thread_index()];
      for (int warp = 1; warp < kNormWarps; ++warp) sum += shared.squares[warp][thread_index()];
      shared.factor[thread_index()] = rms_factor(sum, p.columns, p.eps);
    }
    sync_block();
  }

  // Loads the lane's units of the chunk that begins with a step, with zeros beyond the matrix.
  static CAPTION_DEVICE void load_rounded(const Params& p, int step, RoundedUnits& units) {
    const int column = step * kTileSize + lane_index() % kChunkUnits * 8;
    const int first_row = lane_index() / kChunkUnits;
    const T* const from = static_cast<const T*>(p.x.begin) + first_row * p.x_stride + column;
    CAPTION_UNROLL
    for (int i = 0; i < kLaneUnits; ++i) {
      units[i] = Bytes16{};
      if (first_row + i * kRowsAtOnce < p.rows && column < p.columns) {
        units[i] = load(reinterpret_cast<const Bytes16*>(from + i * kRowsAtOnce * p.x_stride));
      }
    }
  }

  static CAPTION_DEVICE void store_rounded(const Params& p, Work& work, const RoundedUnits& units) {
    CAPTION_UNROLL
    for (int i = 0; i < kLaneUnits; ++i) {
      const int row = lane_index() / kChunkUnits + i * kRowsAtOnce;
      if (row < p.rows) store(&work.x[row][lane_index() % kChunkUnits], units[i]);
    }
  }

  // Brings the columns of a chunk to shared memory, normalised and rounded, with zeros beyond the
  // matrix.
  static CAPTION_DEVICE void load_chunk(const Params& p, Work& work, const float* factor,
                                        int first_column) {
    constexpr int kLanes =
        kChunkColumns / kPack < 32 ? kChunkColumns / kPack : 32;  // lanes per row
    constexpr int kRowsAtOnce = 32 / kLanes;
    constexpr int kLoads = 4;  // loads that a lane issues before it stores
    CAPTION_UNROLL
    for (int first = 0; first < kChunkColumns; first += kLanes * kPack) {
      const int within = first + lane_index() % kLanes * kPack;
      const int column = first_column + within;
      const bool is_inside = column < p.columns;
      const bool is_normed = p.norm.begin != nullptr;
      Packed<float, kPack> norm = {};
      if (is_normed && is_inside) norm = load_numbers<kPack>(p.norm, column);
      CAPTION_NO_UNROLL
      for (int row = lane_index() / kLanes; row < p.rows; row += kRowsAtOnce * kLoads) {
        Packed<float, kPack> x[kLoads] = {};
        CAPTION_UNROLL
        for (int i = 0; i < kLoads; ++i) {
          const int r = row + i * kRowsAtOnce;
          if (r < p.rows && is_inside) {
            x[i] = load_numbers<kPack>(p.x, r * p.x_stride + column);
          }
        }
        CAPTION_UNROLL
        for (int i = 0; i < kLoads; ++i) {
          const int r = row + i * kRowsAtOnce;
          if (r >= p.rows) continue;
          if (is_normed) {
            for (int j = 0; j < kPack; ++j) x[i].x[j] = x[i].x[j] * factor[r] * norm.x[j];
          }
          store_narrowed<T>(work.x[r], within, x[i]);
        }
      }
    }
  }

  // x for two steps of a chunk, from `step` on.
  static CAPTION_DEVICE void load_x(const Params& p, const Work& work, int step,
                                    FragmentA (&xs)[kGroups]) {
    CAPTION_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      // Sums of rows beyond x are not stored: its last row stands for them.
      const int row = g * 8 + lane_index() % 8;
      const int inside = row < p.rows ? row : p.rows - 1;
      xs[g] = ldmatrix_x4(&work.x[inside][step * 2 + lane_index() / 8]);
    }
  }

  static CAPTION_DEVICE void multiply_by(const Bytes16& tile, const FragmentA (&xs)[kGroups],
                                         int half, FragmentC (&sums)[kGroups]) {
    const FragmentA a = {{tile.word[0], tile.word[1], tile.word[2], tile.word[3]}};
    CAPTION_UNROLL
    for (int g = 0; g < kGroups; ++g) {
      multiply_tile(T{}, sums[g], a, {{xs[g].pair[half * 2], xs[g].pair[half * 2 + 1]}});
    }
  }

  // Multiplies the tiles of a chunk, which were loaded before, as many steps as are `left` of the
  // slice, while those of the next one are loaded.
  static CAPTION_DEVICE void multiply_ahead(const Params& p, const Work& work, Cursor& cursor,
                                            ChunkTiles& ahead, int left, Sums& sums) {
    ChunkTiles tiles;
    CAPTION_UNROLL
    for (int step = 0; step < kChunkSteps; ++step) {
      CAPTION_UNROLL
      for (int o = 0; o < kOperands; ++o) tiles[step][o] = ahead[step][o];
    }
    load_tiles(p, cursor, ahead);
    CAPTION_UNROLL
    for (int step = 0; step < kChunkSteps; step += 2) {
      FragmentA xs[kGroups];
      load_x(p, work, step, xs);
      CAPTION_UNROLL
      for (int half = 0; half < 2; ++half) {
        if (step + half >= left) return;
        CAPTION_UNROLL
        for (int o = 0; o < kOperands; ++o) multiply_by(tiles[step + half][o], xs, half, sums[o]);
      }
    }
  }

  // Multiplies up to kChunkSteps tiles of each operand, as many as are `left` of the slice.
  static CAPTION_DEVICE void multiply_chunk(const Params& p, Ring& ring, const Work& work,
                                            Cursor& cursor, int left, Sums& sums) {
    static_assert((kStages - 1) % kOperands ==
                  0);  // the operand that is copied is the one multiplied
    CAPTION_NO_UNROLL
    for (int step = 0; step < kChunkSteps; step += 2) {
      FragmentA xs[kGroups];
      load_x(p, work, step, xs);
      CAPTION_UNROLL
      for (int half = 0; half < 2; ++half) {
        if (step + half >= left) return;
        CAPTION_UNROLL
        for (int o = 0; o < kOperands; ++o) {
          wait_copies<kStages - 2>();
          const int slot = cursor.slot;
          const Bytes16 tile = load(&ring[slot][lane_index()]);
          copy_tile(p, ring[slot == 0 ? kStages - 1 : slot - 1], cursor, o);
          cursor.slot = slot + 1 == kStages ? 0 : slot + 1;
          multiply_by(tile, xs, half, sums[o]);
        }
      }
    }
  }

  // The row of a group, and the feature of the tile, of the total that a thread adds and stores.
  static CAPTION_DEVICE int row_of_total() { return warp_index() + lane_index() / 16 * 4; }
  static CAPTION_DEVICE int feature_of_total() { return lane_index() % 16; }

  // Adds the four warps' slices to the totals, in their order. A warp without a slice has zeros,
  // which change no sum.
  static CAPTION_DEVICE void add_slices(Shared& shared, const Sums& sums, Totals& totals) {
    sync_warp();  // all lanes have read x, in whose place the sums are
    CAPTION_UNROLL
    for (int o = 0; o < kOperands; ++o) {
      CAPTION_UNROLL
      for (int g = 0; g < kGroups; ++g) {
        CAPTION_UNROLL
        for (int e = 0; e < 4; ++e) {
          const int row = lane_index() % 4 * 2 + e % 2;
          shared.work[warp_index()].sums[o][g][row][lane_index() / 4 + e / 2 * 8] =
              sums[o][g].sum[e];
        }
      }
    }
    sync_block();
    CAPTION_UNROLL
    for (int o = 0; o < kOperands; ++o) {
      CAPTION_UNROLL
      for (int g = 0; g < kGroups; ++g) {
        for (int w = 0; w < kFewRowsWarps; ++w) {
          totals[o][g] += shared.work[w].sums[o][g][row_of_total()][feature_of_total()];
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

template <class T, int kGroups, int kPack>
void launch_few_rows(Stream& stream, const FewRowsParams& params, bool is_swiglu) {
  const Grid grid{.x = static_cast<unsigned>(params.parts.blocks)};
  if (is_swiglu) return launch_dependent<FewRows<T, kGroups, kPack, 2>>(stream, grid, params);
  launch_dependent<FewRows<T, kGroups, kPack, 1>>(stream, grid, params);
}

template <class T>
void launch_few_rows(Stream& stream, const FewRowsParams& params, bool is_swiglu, bool has_packs) {
  if (params.rows <= 8) {
    if (has_packs) return launch_few_rows<T, 1, 4>(stream, params, is_swiglu);
    return launch_few_rows<T, 1, 1>(stream, params, is_swiglu);
  }
  if (has_packs) return launch_few_rows<T, 2, 4>(stream, params, is_swiglu);
  launch_few_rows<T, 2, 1>(stream, params, is_swiglu);
}

}  // namespace

void multiply_few_rows(Stream& stream, const DenseLayer& layer) {
  const ConstView x = layer.x;
  const RowsToNorm norm = layer.norm == nullptr ? RowsToNorm{} : *layer.norm;
  const DType dtype = TilesForm::of(layer.parts.front().weight).tiles().dtype;
  const FewRowsParams params{.parts = tiles_parts(layer, kTileSize),
                             .x = numbers_of(x),
                             .x_stride = x.row_stride(),
                             .norm = numbers_of(norm.weight),
                             .eps = norm.eps,
                             .rows = static_cast<int>(x.dim(0)),
                             .columns = static_cast<int>(x.dim(1)),
                             .steps = count_tiles(x.dim(1)),
                             .is_rounded = x.dtype() == dtype && allows_packs(x, 8)};
  // With a norm as rms_norm() chooses, on which the order of its sums depends.
  const bool has_packs = choose_pack({x, norm.weight, norm.normed}) == 4;
  if (dtype == DType::kBF16) {
    launch_few_rows<BF16>(stream, params, layer.is_swiglu, has_packs);
  } else {
    launch_few_rows<F16>(stream, params, layer.is_swiglu, has_packs);
  }
}

}  // namespace caption::kernels::cuda
