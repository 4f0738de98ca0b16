// The dense layer with e4m3 numbers of x and weights, for few rows. A block computes 16 features of
// up to 32 rows. Its four warps take the slices of K in turn.
//
// Sums       Tensor cores sum the products of a step of 64 columns from 0. Steps are added in f32,
//            in their order, to the sum of a slice, and slices in theirs (kernels/cuda/codes.h). So
//            the order depends on K alone, and a row has the same bits alone and beside others.
// Traffic    1 byte per weight, once per 32 rows; x comes from L1 and L2.
// In flight  6 steps of 1 KiB per warp.
// Measured on no GPU.
#include "kernels/cuda/code_ring.cuh"

namespace caption::kernels::cuda {
namespace {

constexpr int kStepTiles = kE4M3StepColumns / 32;

// Brings the codes of a warp's steps through shared memory by asynchronous copies. A lane reads
// what it copied itself. The warps take slices of K in turn; where a block computes gate and up,
// the slices of up follow those of gate.
template <int kStages>
class Fp8Ring {
 public:
  struct Shared {
    Bytes16 steps[kCodeWarps][kStages][kStepTiles][32];
  };

  CAPTION_DEVICE Fp8Ring(const CodeParams& p, const CodeWork& work, Shared& shared)
      : p_(p), work_(work), steps_(shared.steps[warp_index()]), slice_(warp_index()) {
    begin_slice();
    for (int slot = 0; slot < kStages - 1; ++slot) copy_next(slot);
  }

  // Waits for the warp's next step and begins the copy of a later one. Gives the lane's codes.
  CAPTION_DEVICE void next(FragmentA8 (&a)[kStepTiles]) {
    slot_ = slot_ + 1 == kStages ? 0 : slot_ + 1;
    wait_copies<kStages - 2>();
    CAPTION_UNROLL
    for (int i = 0; i < kStepTiles; ++i) {
      const Bytes16 codes = load(&steps_[slot_][i][lane_index()]);
      a[i] = {{codes.word[0], codes.word[1], codes.word[2], codes.word[3]}};
    }
    copy_next(slot_ == 0 ? kStages - 1 : slot_ - 1);
  }

 private:
  CAPTION_DEVICE void begin_slice() {
    while (pass_ < work_.num_passes && slice_ * p_.tiles_per_slice >= p_.tiles) {
      ++pass_;
      slice_ = warp_index();
    }
    if (pass_ == work_.num_passes) return;
    const int begin = slice_ * p_.tiles_per_slice;
    const int end = begin + p_.tiles_per_slice < p_.tiles ? begin + p_.tiles_per_slice : p_.tiles;
    tiles_left_ = end - begin;
    const std::int64_t tile = std::int64_t{work_.tile_row} * p_.tiles + begin;
    from_ = p_.parts.part[work_.first_part + pass_].weight.tiles + tile * 32 + lane_index();
  }

  // An empty group of copies when there is no step left.
  CAPTION_DEVICE void copy_next(int slot) {
    if (tiles_left_ > 0) {
      CAPTION_UNROLL
      for (int i = 0; i < kStepTiles; ++i) {
        copy_16_async(&steps_[slot][i][lane_index()], from_ + i * 32, true);
      }
      from_ += kStepTiles * 32;
      tiles_left_ -= kStepTiles;
      if (tiles_left_ == 0) {
        slice_ += kCodeWarps;
        begin_slice();
      }
    }
    commit_copies();
  }

  const CodeParams& p_;
  CodeWork work_;
  Bytes16 (&steps_)[kStages][kStepTiles][32];
  int slot_ = -1;  // where the step lies that next() gave
  // The step that is copied next.
  int pass_ = 0;
  int slice_;
  int tiles_left_ = 0;  // in its slice
  const Bytes16* from_ = nullptr;
};

template <int kRowGroups>
struct Fp8FewRows {
  static constexpr Gpus kGpus = kGpusOfE4M3;
  static constexpr int kThreads = 32 * kCodeWarps;
  using Params = CodeParams;
  using Ring = Fp8Ring<7>;
  struct Shared {
    typename Ring::Shared ring;
    // Slices of the warps, of two rounds in turn: a warp may write those of a round while another
    // still reads those before.
    float slices[2][kCodeWarps][kRowGroups][4][32];
    float totals[2][kRowGroups][4][32];  // one per pass
  };
  using Sums = FragmentC[kRowGroups];
  // The lane's columns of its row of each group of 8 rows, for a step.
  struct StepOfX {
    FragmentB8 tile[kRowGroups][kStepTiles];
  };

  static CAPTION_DEVICE void run(const Params& p) {
    auto& shared = shared_memory<Shared>();
    const CodeWork work = work_of_block(p);
    Ring ring(p, work, shared.ring);
    int round = 0;
    for (int pass = 0; pass < work.num_passes; ++pass) {
      float totals[kRowGroups] = {};  // of the element that the warp adds
      const int slice = p.tiles_per_slice;
      for (int first = 0; first < p.tiles; first += kCodeWarps * slice, ++round) {
        const int begin = first + warp_index() * slice;
        Sums sums = {};
        multiply_slice(p, ring, begin, begin + slice < p.tiles ? begin + slice : p.tiles, sums);
        add_slices(shared.slices[round % 2], sums, totals);
      }
      for (int g = 0; g < kRowGroups; ++g) {
        shared.totals[pass][g][warp_index()][lane_index()] = totals[g];
      }
    }
    wait_copies<0>();
    store_scaled(p, work, shared.totals);
  }

  // A warp without a slice has sums of zero, which change no total.
  static CAPTION_DEVICE void multiply_slice(const Params& p, Ring& ring, int begin, int end,
                                            Sums& sums) {
    if (begin >= end) return;
    StepOfX next_x = load_x(p, begin);
    for (int tile = begin; tile < end; tile += kStepTiles) {
      const StepOfX x = next_x;
      FragmentA8 a[kStepTiles];
      ring.next(a);
      if (tile + kStepTiles < end) next_x = load_x(p, tile + kStepTiles);
      for (int g = 0; g < kRowGroups; ++g) {
        FragmentC products = {};
        for (int i = 0; i < kStepTiles; ++i) mma_e4m3(products, a[i], x.tile[g][i]);
        for (int e = 0; e < 4; ++e) sums[g].sum[e] += products.sum[e];
      }
    }
  }

  static CAPTION_DEVICE StepOfX load_x(const Params& p, int tile) {
    StepOfX x = {};
    for (int g = 0; g < kRowGroups; ++g) {
      const int row = (block_y() * kRowGroups + g) * 8 + lane_index() / 4;
      if (row >= p.rows) continue;
      for (int i = 0; i < kStepTiles; ++i) {
        const std::int64_t column =
            std::int64_t{row} * p.packed_columns + (tile + i) * 32 + lane_index() % 4 * 8;
        const auto eight = load(reinterpret_cast<const Packed<std::uint32_t, 2>*>(p.x + column));
        x.tile[g][i] = {{eight.x[0], eight.x[1]}};
      }
    }
    return x;
  }

  // Adds the slices of a round to the totals, in their order. Each warp adds one element.
  static CAPTION_DEVICE void add_slices(float (&slices)[kCodeWarps][kRowGroups][4][32],
                                        const Sums& sums, float (&totals)[kRowGroups]) {
    for (int g = 0; g < kRowGroups; ++g) {
      for (int e = 0; e < 4; ++e) slices[warp_index()][g][e][lane_index()] = sums[g].sum[e];
    }
    sync_block();
    for (int g = 0; g < kRowGroups; ++g) {
      for (int w = 0; w < kCodeWarps; ++w) {
        totals[g] += slices[w][g][warp_index()][lane_index()];
      }
    }
  }
};

}  // namespace

void multiply_e4m3_few_rows(Stream& stream, const CodeParams& params) {
  if (params.rows <= 8) return launch<Fp8FewRows<1>>(stream, code_grid(params, 8), params);
  if (params.rows <= 16) return launch<Fp8FewRows<2>>(stream, code_grid(params, 16), params);
  launch<Fp8FewRows<4>>(stream, code_grid(params, 32), params);
}

}  // namespace caption::kernels::cuda
