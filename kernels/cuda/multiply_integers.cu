// The dense layer with x and weights of 8 bits, or codes of 4 bits that are widened to 8. Sums are
// exact, in any order, and are scaled as the CPU scales them (scale_integers()), so they have its
// bits. A block computes 16 features of up to 32 rows; its four warps take slices of K in turn.
//
// Traffic    1 or half a byte per weight, once per 32 rows; x comes from L1 and L2.
// In flight  11 copies of 512 bytes and more per warp; before sm_80 4 loads of 512 bytes.
// Measured on no GPU.
#include "kernels/cuda/code_ring.cuh"

namespace caption::kernels::cuda {
namespace {

// kInRegisters is for sm_75, which lacks asynchronous copies.
template <CodeKind kKind, int kRowGroups, bool kInRegisters>
struct MultiplyIntegers {
  static constexpr Gpus kGpus = kInRegisters ? kTuring : kFromAmpere;
  static constexpr int kThreads = 32 * kCodeWarps;
  using Params = CodeParams;
  static constexpr int kSteps = kKind == CodeKind::kInt8A8 ? 1 : 2;  // steps of 32 columns
  static constexpr int kStages = kInRegisters ? 4 : 12;
  using Ring = CodeRing<kStages, kSteps, kInRegisters>;
  struct Shared {
    typename Ring::Shared ring;
    std::int32_t sums[kCodeWarps][kRowGroups][4][32];
    std::int32_t totals[2][kRowGroups][4][32];  // one per pass
  };
  using Sums = FragmentC32[kRowGroups];
  // The lane's columns of its row of each group of 8 rows, for a tile.
  struct TileOfX {
    FragmentB8 step[kRowGroups][kSteps];
  };

  static CAPTION_DEVICE void run(const Params& p) {
    auto& shared = shared_memory<Shared>();
    const CodeWork work = work_of_block(p);
    Ring ring(p, work, shared.ring);
    for (int pass = 0; pass < work.num_passes; ++pass) {
      Sums sums = {};
      const int slice = p.tiles_per_slice;
      for (int begin = warp_index() * slice; begin < p.tiles; begin += kCodeWarps * slice) {
        multiply_slice(p, ring, begin, begin + slice < p.tiles ? begin + slice : p.tiles, sums);
      }
      add_warps(shared, sums, pass);
    }
    wait_copies<0>();
    store_scaled(p, work, shared.totals);
  }

  static CAPTION_DEVICE void multiply_slice(const Params& p, Ring& ring, int begin, int end,
                                            Sums& sums) {
    std::uint32_t steps_and_bases = 0;
    int steps_left = 0;  // steps until the group ends
    TileOfX next_x = load_x(p, begin);
    for (int tile = begin; tile < end; ++tile) {
      const TileOfX x = next_x;
      const Bytes16 codes = ring.next();
      if (tile + 1 < end) next_x = load_x(p, tile + 1);
      int begun = 0;  // groups in this tile
      for (int step = 0; step < kSteps; ++step) {
        if constexpr (kKind == CodeKind::kInt4A8) {
          if (steps_left == 0) {
            if ((tile * kSteps + step) / p.group_steps == p.groups) break;
            steps_and_bases = ring.template number<std::uint32_t>(begun++ * 8 + lane_index() / 4);
            steps_left = p.group_steps;
          }
          --steps_left;
        }
        const FragmentA8 a = fragment(codes, step, steps_and_bases);
        for (int g = 0; g < kRowGroups; ++g) mma_s8(sums[g], a, x.step[g][step]);
      }
    }
  }

  static CAPTION_DEVICE FragmentA8 fragment(const Bytes16& codes, int step,
                                            std::uint32_t steps_and_bases) {
    if constexpr (kKind == CodeKind::kInt8A8) {
      return {{codes.word[0], codes.word[1], codes.word[2], codes.word[3]}};
    } else {
      FragmentA8 a;
      for (int r = 0; r < 4; ++r) {
        const std::uint32_t feature = steps_and_bases >> (r % 2 * 16);
        const std::uint32_t nibbles = codes.word[2 * step + r / 2] >> (r % 2 * 4) & 0x0F0F0F0Fu;
        // A byte of 15 steps and a base is at most 255, so that no byte carries to the next.
        const std::uint32_t bases = (feature >> 8 & 255u) * 0x01010101u;
        a.four[r] = (nibbles * (feature & 255u) + bases) ^ 0x80808080u;  // minus 128
      }
      return a;
    }
  }

  static CAPTION_DEVICE TileOfX load_x(const Params& p, int tile) {
    TileOfX x = {};
    for (int g = 0; g < kRowGroups; ++g) {
      const int row = (block_y() * kRowGroups + g) * 8 + lane_index() / 4;
      if (row >= p.rows) continue;
      const std::int64_t first = std::int64_t{row} * p.packed_columns + tile * kSteps * 32;
      for (int step = 0; step < kSteps; ++step) {
        const std::int64_t column = first + step * 32 + lane_index() % 4 * 8;
        const auto eight = load(reinterpret_cast<const Packed<std::uint32_t, 2>*>(p.x + column));
        x.step[g][step] = {{eight.x[0], eight.x[1]}};
      }
    }
    return x;
  }

  // Writes the sum of the four warps' sums to the pass's totals. Each warp adds one element.
  static CAPTION_DEVICE void add_warps(Shared& shared, const Sums& sums, int pass) {
    for (int g = 0; g < kRowGroups; ++g) {
      for (int e = 0; e < 4; ++e) {
        shared.sums[warp_index()][g][e][lane_index()] = sums[g].sum[e];
      }
    }
    sync_block();
    const int e = warp_index();
    for (int g = 0; g < kRowGroups; ++g) {
      std::int32_t total = 0;
      for (int w = 0; w < kCodeWarps; ++w) total += shared.sums[w][g][e][lane_index()];
      shared.totals[pass][g][e][lane_index()] = total;
    }
    sync_block();
  }
};

template <CodeKind kKind, bool kInRegisters>
void launch_integers(Stream& stream, const CodeParams& params) {
  if (params.rows <= 8) {
    return launch<MultiplyIntegers<kKind, 1, kInRegisters>>(stream, code_grid(params, 8), params);
  }
  if (params.rows <= 16) {
    return launch<MultiplyIntegers<kKind, 2, kInRegisters>>(stream, code_grid(params, 16), params);
  }
  launch<MultiplyIntegers<kKind, 4, kInRegisters>>(stream, code_grid(params, 32), params);
}

template <bool kInRegisters>
void launch_kind(Stream& stream, const CodeParams& params, CodeKind kind) {
  if (kind == CodeKind::kInt8A8) {
    return launch_integers<CodeKind::kInt8A8, kInRegisters>(stream, params);
  }
  launch_integers<CodeKind::kInt4A8, kInRegisters>(stream, params);
}

}  // namespace

void multiply_integers(Stream& stream, const CodeParams& params, CodeKind kind, DType dtype) {
  if (dtype == DType::kF16) return launch_kind<true>(stream, params, kind);
  launch_kind<false>(stream, params, kind);
}

}  // namespace caption::kernels::cuda
