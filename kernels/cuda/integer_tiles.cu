// The dense layer with x and weights of 8 bits, or codes of 4 bits that are widened to 8, for more
// rows than few. Sums are exact and scaled as kernels/cuda/multiply_integers.cu scales them: the
// bits are equal.
//
// A block computes 256 features of 128 rows, or 64 features of 64 rows, in stages of a tile of
// columns, 32 of 8 bits or 64 of 4: the codes, x, and the steps and bases of each 32 columns.
// Asynchronous copies bring them to shared memory; before sm_80, which lacks such copies, registers
// hold the next stage while a stage is multiplied. A warp of a large block computes 64 features of
// 64 rows, so that it reads a code or a number of x once for 64 products.
//
// Traffic    of a block 256 bytes of codes, or 128 of 4 bits, and 128 of x per column from L2 for
//            32,768 products. Neighbouring blocks share their features, then their rows of x.
// Issued     per stage and warp of a large block 93 instructions and 32 IMMA, of 4 bits 346 and 64
//            (sm_80, nvcc 13.0).
// Measured on no GPU.
#include "kernels/cuda/code_tiles.cuh"
#include "kernels/cuda/numbers.cuh"

namespace caption::kernels::cuda {
namespace {

// Where a thread's copies of a stage come from: units of 16 bytes.
template <int kTileUnits, int kXUnits>
struct IntegerSources {
  const Bytes16* tile[kTileUnits];
  const std::byte* x[kXUnits];
  const std::byte* numbers;
  bool has_tile[kTileUnits];
  bool has_x[kXUnits];
  bool has_numbers;
};

// The steps of the features lane / 4 and lane / 4 + 8 of a tile, and their bases, in each byte.
struct StepsAndBases {
  std::uint32_t steps[2];
  std::uint32_t bases[2];
};

// With two stages, registers hold the next one.
template <CodeKind kKind, class S>
struct IntegerTiles {
  static constexpr bool kHasRegisters = S::kStages == 2;
  static constexpr Gpus kGpus = kHasRegisters ? kTuring : kFromAmpere;
  using Shape = S;
  static constexpr int kThreads = S::kThreads;
  using Params = CodeTilesParams;
  static constexpr bool kHasSteps = kKind == CodeKind::kInt4A8;
  static constexpr int kSteps = kHasSteps ? 2 : 1;  // steps of 32 columns in a stage
  static constexpr int kRowUnits = 2 * kSteps;      // units of 16 bytes in a stage's row of x
  static constexpr int kTileUnits = S::kBlockTiles * 32 / kThreads;
  static constexpr int kXUnits = S::kBlockRows * kRowUnits / kThreads;
  static constexpr int kStepUnits = 2;  // units of the steps and bases of 16 features
  static constexpr int kNumberUnits = kHasSteps ? S::kBlockTiles * kSteps * kStepUnits : 0;
  static_assert(kTileUnits * kThreads == S::kBlockTiles * 32 &&
                kXUnits * kThreads == S::kBlockRows * kRowUnits && kNumberUnits <= kThreads);

  struct Stages {
    Bytes16 tiles[S::kStages][S::kBlockTiles][32];
    // The unit u of a row of 4 units is at u ^ row / 2 % 2 * 2, so that the lanes of four rows are
    // in different banks.
    Bytes16 x[S::kStages][S::kBlockRows][kRowUnits];
    Bytes16 numbers[S::kStages][kNumberUnits + 1];  // [tile][step][feature]
  };
  union Shared {
    Stages stages;
    Exchange<S> exchange;
  };
  using Sources = IntegerSources<kTileUnits, kXUnits>;
  struct Units {
    Bytes16 unit[kTileUnits + kXUnits + 1];
  };
  using IntegerSums = FragmentC32[S::kTiles][S::kGroups];

  static CAPTION_DEVICE void run(const Params& params) {
    auto& shared = shared_memory<Shared>();
    const CodeParams& p = params.codes;
    const BlockPlace place = place_of_block<S>(p.parts, params.row_blocks, operands_of(p));
    Sources sources = sources_of(p, place);
    Units units;
    if constexpr (kHasRegisters) {
      load_stage(p, shared.stages, sources, 0, units);
      store_stage(p, shared.stages, sources, 0, 0, units);
    } else {
      for (int i = 0; i < S::kStages - 1; ++i) copy_stage(p, shared.stages, sources, i, i);
    }
    const bool has_rows = place.first_row + row_warp() * S::kGroups * 8 < p.rows;
    IntegerSums sums = {};
    int slot = 0;
    for (int stage = 0; stage < p.tiles; ++stage) {
      const int next = stage + S::kStages - 1;
      const int free_slot = slot == 0 ? S::kStages - 1 : slot - 1;
      wait_copies<S::kStages - 2>();
      sync_block();
      if constexpr (kHasRegisters) {
        load_stage(p, shared.stages, sources, next, units);
      } else {
        copy_stage(p, shared.stages, sources, next, free_slot);
      }
      if (has_rows) multiply_stage(shared.stages, slot, sums);
      if constexpr (kHasRegisters) {
        store_stage(p, shared.stages, sources, next, free_slot, units);
      }
      slot = slot + 1 == S::kStages ? 0 : slot + 1;
    }
    wait_copies<0>();
    Sums<S> scaled;
    const auto sum_of = [&sums](int i, int g, int e) {
      return static_cast<float>(sums[i][g].sum[e]);
    };
    scale_sums<S>(p, place, sum_of, scaled);
    if (p.is_swiglu) {
      store_sums<S, 2>(p.parts, p.rows, place, shared.exchange, scaled);
    } else {
      store_sums<S, 1>(p.parts, p.rows, place, shared.exchange, scaled);
    }
  }

  static CAPTION_DEVICE int operands_of(const CodeParams& p) { return p.is_swiglu ? 2 : 1; }
  static CAPTION_DEVICE int feature_warp() { return warp_index() % S::kFeatureWarps; }
  static CAPTION_DEVICE int row_warp() { return warp_index() / S::kFeatureWarps; }
  static CAPTION_DEVICE int row_unit() { return thread_index() % kRowUnits; }
  static CAPTION_DEVICE int unit_at(int row, int unit) {
    return kRowUnits == 4 ? unit ^ row / 2 % 2 * 2 : unit;
  }

  static CAPTION_DEVICE Sources sources_of(const CodeParams& p, const BlockPlace& place) {
    Sources sources = {};
    const int operands = operands_of(p);
    CAPTION_UNROLL
    for (int i = 0; i < kTileUnits; ++i) {
      const int block_tile = warp_index() + i * (kThreads / 32);
      const auto& part = p.parts.part[place.part + block_tile % operands];
      const int tile_row = place.first_tile + block_tile / operands;
      sources.has_tile[i] = tile_row * kTileSize < part.output.features;
      sources.tile[i] = part.weight.tiles + std::int64_t{tile_row} * p.tiles * 32 + lane_index();
    }
    CAPTION_UNROLL
    for (int i = 0; i < kXUnits; ++i) {
      const int row = place.first_row + (thread_index() + i * kThreads) / kRowUnits;
      sources.has_x[i] = row < p.rows;
      sources.x[i] = p.x + std::int64_t{row} * p.packed_columns + row_unit() * 16;
    }
    if constexpr (kHasSteps) {
      const int block_tile = thread_index() / (kSteps * kStepUnits);
      const auto& part = p.parts.part[place.part + block_tile % operands];
      const int tile_row = place.first_tile + block_tile / operands;
      sources.has_numbers =
          thread_index() < kNumberUnits && tile_row * kTileSize < part.output.features;
      sources.numbers =
          part.weight.numbers +
          (std::int64_t{tile_row} * p.groups * kStepUnits + thread_index() % kStepUnits) * 16;
    }
    return sources;
  }

  // Calls copy(i, to, from, is_inside) for each unit i of a stage that the thread copies; what is
  // not inside the operands is zero.
  template <class Copy>
  static CAPTION_DEVICE void visit_units(const CodeParams& p, Stages& stages,
                                         const Sources& sources, int stage, int slot, Copy copy) {
    CAPTION_UNROLL
    for (int i = 0; i < kTileUnits; ++i) {
      Bytes16* const to = &stages.tiles[slot][warp_index() + i * (kThreads / 32)][lane_index()];
      copy(i, to, sources.tile[i], sources.has_tile[i]);
    }
    CAPTION_UNROLL
    for (int i = 0; i < kXUnits; ++i) {
      const int row = (thread_index() + i * kThreads) / kRowUnits;
      copy(kTileUnits + i, &stages.x[slot][row][unit_at(row, row_unit())], sources.x[i],
           sources.has_x[i]);
    }
    if constexpr (kHasSteps) {
      if (thread_index() >= kNumberUnits) return;
      // Beyond the last group x is zero.
      const int step = stage * kSteps + thread_index() / kStepUnits % kSteps;
      const int group = step * p.inverse_of_group_steps >> 16;
      copy(kTileUnits + kXUnits, &stages.numbers[slot][thread_index()],
           sources.numbers + std::int64_t{group} * (kStepUnits * 16),
           sources.has_numbers && group < p.groups);
    }
  }

  static CAPTION_DEVICE void go_on(Sources& sources) {
    CAPTION_UNROLL
    for (int i = 0; i < kTileUnits; ++i) sources.tile[i] += 32;
    CAPTION_UNROLL
    for (int i = 0; i < kXUnits; ++i) sources.x[i] += kRowUnits * 16;
  }

  // Begins the copies of a stage and makes them a group, which is empty after the last stage.
  static CAPTION_DEVICE void copy_stage(const CodeParams& p, Stages& stages, Sources& sources,
                                        int stage, int slot) {
    if (stage < p.tiles) {
      visit_units(p, stages, sources, stage, slot,
                  [](int, void* to, const void* from, bool is_inside) {
                    copy_16_async(to, from, is_inside);
                  });
      go_on(sources);
    }
    commit_copies();
  }

  static CAPTION_DEVICE void load_stage(const CodeParams& p, Stages& stages, const Sources& sources,
                                        int stage, Units& units) {
    if (stage >= p.tiles) return;
    visit_units(p, stages, sources, stage, 0, [&](int i, void*, const void* from, bool is_inside) {
      units.unit[i] = {};
      if (is_inside) units.unit[i] = load(static_cast<const Bytes16*>(from));
    });
  }
  // Stores what load_stage() loaded of the stage.
  static CAPTION_DEVICE void store_stage(const CodeParams& p, Stages& stages, Sources& sources,
                                         int stage, int slot, const Units& units) {
    if (stage >= p.tiles) return;
    visit_units(p, stages, sources, stage, slot, [&](int i, void* to, const void*, bool) {
      store(static_cast<Bytes16*>(to), units.unit[i]);
    });
    go_on(sources);
  }

  static CAPTION_DEVICE void multiply_stage(const Stages& stages, int slot, IntegerSums& sums) {
    Bytes16 codes[S::kTiles];
    CAPTION_UNROLL
    for (int i = 0; i < S::kTiles; ++i) {
      codes[i] = load(&stages.tiles[slot][feature_warp() * S::kTiles + i][lane_index()]);
    }
    const int row = row_warp() * S::kGroups * 8 + lane_index() / 4;
    CAPTION_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      FragmentB8 xs[S::kGroups];
      CAPTION_UNROLL
      for (int g = 0; g < S::kGroups; ++g) {
        // The lane's 8 columns of 32.
        const Bytes16& unit =
            stages.x[slot][row + g * 8][unit_at(row, step * 2 + lane_index() % 4 / 2)];
        const auto eight = load(
            reinterpret_cast<const Packed<std::uint32_t, 2>*>(unit.word + lane_index() % 2 * 2));
        xs[g] = {{eight.x[0], eight.x[1]}};
      }
      CAPTION_UNROLL
      for (int i = 0; i < S::kTiles; ++i) {
        const FragmentA8 a = fragment(stages, slot, codes[i], i, step);
        CAPTION_UNROLL
        for (int g = 0; g < S::kGroups; ++g) mma_s8(sums[i][g], a, xs[g]);
      }
    }
  }

  static CAPTION_DEVICE FragmentA8 fragment(const Stages& stages, int slot, const Bytes16& codes,
                                            int tile, int step) {
    if constexpr (!kHasSteps) {
      return {{codes.word[0], codes.word[1], codes.word[2], codes.word[3]}};
    } else {
      const StepsAndBases of = steps_and_bases(stages, slot, tile, step);
      FragmentA8 a;
      CAPTION_UNROLL
      for (int r = 0; r < 4; ++r) {
        const std::uint32_t nibbles = codes.word[2 * step + r / 2] >> (r % 2 * 4) & 0x0F0F0F0Fu;
        // A byte of 15 steps and a base is at most 255, so that no byte carries to the next.
        a.four[r] = (nibbles * of.steps[r % 2] + of.bases[r % 2]) ^ 0x80808080u;  // minus 128
      }
      return a;
    }
  }

  static CAPTION_DEVICE StepsAndBases steps_and_bases(const Stages& stages, int slot, int tile,
                                                      int step) {
    const int block_tile = feature_warp() * S::kTiles + tile;
    const Bytes16* const of_step = &stages.numbers[slot][(block_tile * kSteps + step) * kStepUnits];
    const std::uint32_t four = load(of_step->word + lane_index() / 4);
    StepsAndBases of;
    CAPTION_UNROLL
    for (int half = 0; half < 2; ++half) {
      of.steps[half] = four >> (half * 16) & 255u;
      of.bases[half] = (four >> (half * 16 + 8) & 255u) * 0x01010101u;
    }
    return of;
  }
};

// Shared memory allows a block 64 KiB on sm_75.
template <CodeKind kKind, bool kHasRegisters>
void launch_kind(Stream& stream, const CodeParams& params, CodeBlocks blocks) {
  constexpr bool kIs8Bit = kKind == CodeKind::kInt8A8;
  constexpr int kLargeStages = kHasRegisters ? 2 : kIs8Bit ? 5 : 3;
  constexpr int kSmallStages = kHasRegisters ? 2 : kIs8Bit ? 8 : 5;
  launch_tiles<IntegerTiles<kKind, GemmShape<4, 8, 4, 2, kLargeStages>>,
               IntegerTiles<kKind, GemmShape<2, 4, 2, 2, kSmallStages>>>(stream, params, blocks);
}

}  // namespace

void multiply_integer_tiles(Stream& stream, const CodeParams& params, CodeKind kind, DType dtype,
                            CodeBlocks blocks) {
  const bool is_turing = dtype == DType::kF16;
  if (kind == CodeKind::kInt8A8) {
    if (is_turing) return launch_kind<CodeKind::kInt8A8, true>(stream, params, blocks);
    return launch_kind<CodeKind::kInt8A8, false>(stream, params, blocks);
  }
  if (is_turing) return launch_kind<CodeKind::kInt4A8, true>(stream, params, blocks);
  launch_kind<CodeKind::kInt4A8, false>(stream, params, blocks);
}

}  // namespace caption::kernels::cuda
