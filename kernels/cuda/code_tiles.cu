// The dense layer with codes of 8 and 4 bits in groups of columns, for more rows than few.
//
// A block computes 128 features of 96 rows (f16: 64 rows), or 64 features of 64 rows, in stages of
// a tile of columns, 64 of 4 bits or 32 of 8: the codes, x as code_rows() made it, and the numbers
// of the groups that end in the stage. Asynchronous copies bring them to shared memory; in f16, the
// type of sm_75, which lacks such copies, registers hold the next stage while a stage is
// multiplied. A warp widens the codes of its 32 features in registers, for all of its rows. It
// keeps the sums of a group, of a slice of K and of all slices apart, and so adds in the order of
// kernels/cuda/multiply_codes.cu: the bits are equal.
//
// Traffic    of a block 64 bytes of codes, or 128 of 8 bits, and 192 of x per column from L2 for
//            12,288 products. Neighbouring blocks share their features, then their rows of x.
// Issued     per stage and warp 300 instructions and 48 HMMA, of 8 bits 295 and 24; where a group
//            ends 75 more, with offsets 130 (sm_80, nvcc 13.0).
// Measured on no GPU.
#include <type_traits>

#include "kernels/cuda/code_fragments.cuh"
#include "kernels/cuda/code_tiles.cuh"

namespace caption::kernels::cuda {
namespace {

// Where a thread's copies of a stage come from. A warp copies a tile of codes and its numbers.
template <int kXUnits>
struct CodeSources {
  const Bytes16* tile;
  const std::byte* numbers;
  const std::byte* x[kXUnits];
  const float* group_sums;
  bool has_tile;
  bool has_x[kXUnits];
  bool has_group_sums;
};

template <class T, CodeKind kKind, class S>
struct CodeTiles {
  static constexpr Gpus kGpus = kGpusOfProducts<T>;
  using Shape = S;
  static constexpr int kThreads = S::kThreads;
  using Params = CodeTilesParams;
  using Fragments = CodeFragments<T, kKind>;
  static constexpr int kSteps = Fragments::kSteps;
  static constexpr int kChunks = kSteps / 2;     // chunks of 32 columns
  static constexpr int kRowUnits = 4 * kChunks;  // units of 16 bytes in a stage's row of x
  static constexpr int kXUnits = (S::kBlockRows * kRowUnits + kThreads - 1) / kThreads;
  static constexpr int kOctets = S::kBlockRows / 8;
  static constexpr int kMostGroups = 2;    // that end in a stage
  static constexpr int kNumberUnits = 16;  // units of 16 bytes of their numbers
  // Groups of 4 bits end with a chunk.
  static constexpr int kUnitSteps = kKind == CodeKind::kInt8 ? 1 : 2;
  static_assert(kSteps % kUnitSteps == 0);
  static_assert(kThreads == 32 * S::kBlockTiles && kThreads >= kOctets * kMostGroups * 2);

  struct Stages {
    Bytes16 tiles[S::kStages][S::kBlockTiles][32];
    // The unit u of a row of 8 units is at u ^ row % 2 * 4, so that the lanes of two rows are in
    // different banks.
    Bytes16 x[S::kStages][S::kBlockRows][kRowUnits];
    Bytes16 numbers[S::kStages][S::kBlockTiles][kNumberUnits];
    Packed<float, 4> group_sums[S::kStages][kMostGroups][kOctets][2];
  };
  struct Shared {
    union {
      Stages stages;
      Exchange<S> exchange;
    };
    typename Fragments::Shared table;
  };
  using Sources = CodeSources<kXUnits>;
  // Whether the next stage waits in registers.
  static constexpr bool kHasRegisters = std::is_same_v<T, F16>;
  static_assert(!kHasRegisters || S::kStages == 2);
  struct Units {
    Bytes16 unit[kXUnits + 3];
  };

  // What a warp sums.
  struct Progress {
    Sums<S> products;  // of the group
    Sums<S> sums;      // of the slice
    int group;
    int steps_left;  // steps until the group ends
  };

  static CAPTION_DEVICE void run(const Params& params) {
    auto& shared = shared_memory<Shared>();
    const CodeParams& p = params.codes;
    const BlockPlace place = place_of_block<S>(p.parts, params.row_blocks, p.is_swiglu ? 2 : 1);
    const Fragments fragments(shared.table, p.parts.part[place.part].weight.codebook,
                              kThreads / 32);
    Sources sources = sources_of(p, place);
    Units units;
    if constexpr (kHasRegisters) {
      load_stage(p, shared.stages, sources, 0, units);
      store_stage(p, shared.stages, sources, 0, 0, units);
    } else {
      for (int i = 0; i < S::kStages - 1; ++i) {
        copy_stage(p, shared.stages, sources, i, i);
        sync_warp();  // lanes without numbers to copy wait for the others
      }
    }
    const bool has_rows = place.first_row + row_warp() * S::kGroups * 8 < p.rows;
    Progress progress{.products = {}, .sums = {}, .group = 0, .steps_left = p.group_steps};
    Sums<S> totals = {};
    int slot = 0;
    int tiles_left = p.tiles_per_slice;
    for (int tile = 0; tile < p.tiles; ++tile) {
      const int next = tile + S::kStages - 1;
      const int free_slot = slot == 0 ? S::kStages - 1 : slot - 1;
      wait_copies<S::kStages - 2>();
      sync_block();
      if constexpr (kHasRegisters) {
        load_stage(p, shared.stages, sources, next, units);
      } else {
        copy_stage(p, shared.stages, sources, next, free_slot);
      }
      if (has_rows) multiply_stage(p, shared.stages, slot, fragments, progress);
      if constexpr (kHasRegisters) {
        store_stage(p, shared.stages, sources, next, free_slot, units);
      }
      slot = slot + 1 == S::kStages ? 0 : slot + 1;
      if (--tiles_left == 0) {
        add_slice<S>(progress.sums, totals);
        tiles_left = p.tiles_per_slice;
      }
    }
    wait_copies<0>();
    add_slice<S>(progress.sums, totals);  // zeros after a whole slice, which change no sum
    if (p.is_swiglu) {
      store_sums<S, 2>(p.parts, p.rows, place, shared.exchange, totals);
    } else {
      store_sums<S, 1>(p.parts, p.rows, place, shared.exchange, totals);
    }
  }

  static CAPTION_DEVICE int feature_warp() { return warp_index() % S::kFeatureWarps; }
  static CAPTION_DEVICE int row_warp() { return warp_index() / S::kFeatureWarps; }
  static CAPTION_DEVICE int row_unit() { return thread_index() % kRowUnits; }
  static CAPTION_DEVICE int unit_at(int row, int unit) {
    return kRowUnits == 8 ? unit ^ row % 2 * 4 : unit;
  }
  // Groups that end before a step.
  static CAPTION_DEVICE int groups_before(const CodeParams& p, int step) {
    const int groups = step * p.inverse_of_group_steps >> 16;
    return groups < p.groups ? groups : p.groups;
  }

  static CAPTION_DEVICE Sources sources_of(const CodeParams& p, const BlockPlace& place) {
    Sources sources;
    const int operands = p.is_swiglu ? 2 : 1;
    const auto& part = p.parts.part[place.part + warp_index() % operands];
    const int tile_row = place.first_tile + warp_index() / operands;
    sources.has_tile = tile_row * kTileSize < part.output.features;
    sources.tile = part.weight.tiles + std::int64_t{tile_row} * p.tiles * 32 + lane_index();
    sources.numbers = part.weight.numbers +
                      (std::int64_t{tile_row} * p.groups * p.group_pieces + lane_index()) * 16;
    CAPTION_UNROLL
    for (int i = 0; i < kXUnits; ++i) {
      const int block_row = (thread_index() + i * kThreads) / kRowUnits;
      const int row = place.first_row + block_row;
      sources.has_x[i] = row < p.rows;
      sources.x[i] = p.x + (std::int64_t{row} * p.packed_columns + row_unit() * 8) * 2;
    }
    // Two threads copy the sums of eight rows for a group.
    const int octet = place.first_row / 8 + thread_index() / 2 % kOctets;
    const int group = thread_index() / (2 * kOctets);
    sources.has_group_sums = octet * 8 < p.rows;
    sources.group_sums =
        p.group_sums + (std::int64_t{octet} * p.groups + group) * 8 + thread_index() % 2 * 4;
    return sources;
  }

  // Calls copy(i, to, from, is_inside) for each unit i of a stage that the thread copies; what is
  // not inside the operands is zero.
  template <class Copy>
  static CAPTION_DEVICE void visit_units(const CodeParams& p, Stages& stages,
                                         const Sources& sources, int tile, int slot, Copy copy) {
    copy(0, &stages.tiles[slot][warp_index()][lane_index()], sources.tile, sources.has_tile);
    CAPTION_UNROLL
    for (int i = 0; i < kXUnits; ++i) {
      const int row = (thread_index() + i * kThreads) / kRowUnits;
      if (row >= S::kBlockRows) continue;
      copy(1 + i, &stages.x[slot][row][unit_at(row, row_unit())], sources.x[i], sources.has_x[i]);
    }
    // The numbers of the groups that end in the stage.
    const int first = groups_before(p, tile * kSteps);
    const int count = groups_before(p, (tile + 1) * kSteps) - first;
    if (lane_index() < count * p.group_pieces) {
      copy(1 + kXUnits, &stages.numbers[slot][warp_index()][lane_index()],
           sources.numbers + std::int64_t{first} * p.group_pieces * 16, sources.has_tile);
    }
    if (p.has_offsets && thread_index() < count * kOctets * 2) {
      copy(2 + kXUnits, &stages.group_sums[slot][0][0][0] + thread_index(),
           sources.group_sums + std::int64_t{first} * 8, sources.has_group_sums);
    }
  }

  static CAPTION_DEVICE void go_on(Sources& sources) {
    sources.tile += 32;
    CAPTION_UNROLL
    for (int i = 0; i < kXUnits; ++i) sources.x[i] += kRowUnits * 16;
  }

  // Begins the copies of a stage and makes them a group, which is empty after the last stage.
  static CAPTION_DEVICE void copy_stage(const CodeParams& p, Stages& stages, Sources& sources,
                                        int tile, int slot) {
    if (tile < p.tiles) {
      visit_units(p, stages, sources, tile, slot,
                  [](int, void* to, const void* from, bool is_inside) {
                    copy_16_async(to, from, is_inside);
                  });
      go_on(sources);
    }
    commit_copies();
  }

  static CAPTION_DEVICE void load_stage(const CodeParams& p, Stages& stages, const Sources& sources,
                                        int tile, Units& units) {
    if (tile >= p.tiles) return;
    visit_units(p, stages, sources, tile, 0, [&](int i, void*, const void* from, bool is_inside) {
      units.unit[i] = {};
      if (is_inside) units.unit[i] = load(static_cast<const Bytes16*>(from));
    });
  }
  // Stores what load_stage() loaded of the tile.
  static CAPTION_DEVICE void store_stage(const CodeParams& p, Stages& stages, Sources& sources,
                                         int tile, int slot, const Units& units) {
    if (tile >= p.tiles) return;
    visit_units(p, stages, sources, tile, slot, [&](int i, void* to, const void*, bool) {
      store(static_cast<Bytes16*>(to), units.unit[i]);
    });
    go_on(sources);
  }

  static CAPTION_DEVICE void multiply_stage(const CodeParams& p, const Stages& stages, int slot,
                                            const Fragments& fragments, Progress& progress) {
    Bytes16 codes[S::kTiles];
    CAPTION_UNROLL
    for (int i = 0; i < S::kTiles; ++i) {
      codes[i] = load(&stages.tiles[slot][feature_warp() * S::kTiles + i][lane_index()]);
    }
    const int row = row_warp() * S::kGroups * 8 + lane_index() / 4;
    int ended = 0;  // groups in this stage
    CAPTION_UNROLL
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      Bytes16 xs[S::kGroups];
      CAPTION_UNROLL
      for (int g = 0; g < S::kGroups; ++g) {
        const int unit = unit_at(row, chunk * 4 + lane_index() % 4);
        xs[g] = load(&stages.x[slot][row + g * 8][unit]);
      }
      CAPTION_UNROLL
      for (int half = 0; half < 2; ++half) {
        CAPTION_UNROLL
        for (int i = 0; i < S::kTiles; ++i) {
          const FragmentA a = fragments.fragment(codes[i], chunk * 2 + half);
          CAPTION_UNROLL
          for (int g = 0; g < S::kGroups; ++g) {
            const FragmentB b = {{xs[g].word[half * 2], xs[g].word[half * 2 + 1]}};
            multiply_fragments(T{}, progress.products[i][g], a, b);
          }
        }
        if (half + 1 < kUnitSteps) continue;
        progress.steps_left -= kUnitSteps;
        if (progress.steps_left > 0) continue;
        // What is beyond the matrix in the last tile ends no group.
        if (progress.group < p.groups) add_group(p, stages, slot, ended++, progress);
        ++progress.group;
        progress.steps_left = p.group_steps;
      }
    }
  }

  // Adds a group to the sums of its slice.
  static CAPTION_DEVICE void add_group(const CodeParams& p, const Stages& stages, int slot,
                                       int ended, Progress& progress) {
    float offsets[S::kTiles][2] = {};
    CAPTION_UNROLL
    for (int i = 0; i < S::kTiles; ++i) {
      const Bytes16* const numbers = stages.numbers[slot][feature_warp() * S::kTiles + i];
      const int at = ended * 8 + lane_index() / 4;
      float scales[2];
      if (p.has_offsets) {
        const auto four = load(reinterpret_cast<const Packed<float, 4>*>(numbers) + at);
        scales[0] = four.x[0];
        scales[1] = four.x[1];
        offsets[i][0] = four.x[2];
        offsets[i][1] = four.x[3];
      } else {
        const auto two = load(reinterpret_cast<const Packed<float, 2>*>(numbers) + at);
        scales[0] = two.x[0];
        scales[1] = two.x[1];
      }
      CAPTION_UNROLL
      for (int g = 0; g < S::kGroups; ++g) {
        CAPTION_UNROLL
        for (int e = 0; e < 4; ++e) {
          float& sum = progress.sums[i][g].sum[e];
          sum = fused(scales[e / 2], progress.products[i][g].sum[e], sum);
          progress.products[i][g].sum[e] = 0;
        }
      }
    }
    if (!p.has_offsets) return;
    CAPTION_UNROLL
    for (int g = 0; g < S::kGroups; ++g) {
      const auto* const of_octet = reinterpret_cast<const Packed<float, 2>*>(
          stages.group_sums[slot][ended][row_warp() * S::kGroups + g]);
      const auto of_x = load(of_octet + lane_index() % 4);
      CAPTION_UNROLL
      for (int i = 0; i < S::kTiles; ++i) {
        CAPTION_UNROLL
        for (int e = 0; e < 4; ++e) {
          float& sum = progress.sums[i][g].sum[e];
          sum = fused(offsets[i][e / 2], of_x.x[e % 2], sum);
        }
      }
    }
  }
};

// Shared memory allows a block 99 KiB on sm_86 and sm_89, and 64 KiB on sm_75, whose type is f16.
template <class T, CodeKind kKind>
struct Shapes {
  static constexpr int kStages = kKind == CodeKind::kInt8 ? 6 : kKind == CodeKind::kInt4 ? 4 : 3;
  using Large = GemmShape<2, 6, 4, 2, kStages>;
  using Small = GemmShape<2, 4, 2, 2, kStages>;
};
template <CodeKind kKind>
struct Shapes<F16, kKind> {
  using Large = GemmShape<2, 4, 4, 2, 2>;
  using Small = GemmShape<2, 4, 2, 2, 2>;
};

template <class T, CodeKind kKind>
void launch_tiles(Stream& stream, const CodeParams& params, CodeBlocks blocks) {
  launch_tiles<CodeTiles<T, kKind, typename Shapes<T, kKind>::Large>,
               CodeTiles<T, kKind, typename Shapes<T, kKind>::Small>>(stream, params, blocks);
}

template <class T>
void launch_kind(Stream& stream, const CodeParams& params, CodeKind kind, CodeBlocks blocks) {
  if (kind == CodeKind::kInt8) return launch_tiles<T, CodeKind::kInt8>(stream, params, blocks);
  if (kind == CodeKind::kInt4) return launch_tiles<T, CodeKind::kInt4>(stream, params, blocks);
  launch_tiles<T, CodeKind::kTable4>(stream, params, blocks);
}

}  // namespace

void multiply_code_tiles(Stream& stream, const CodeParams& params, CodeKind kind, DType dtype,
                         CodeBlocks blocks) {
  if (dtype == DType::kBF16) return launch_kind<BF16>(stream, params, kind, blocks);
  launch_kind<F16>(stream, params, kind, blocks);
}

}  // namespace caption::kernels::cuda
