// A block has a row. A first pass over the logits finds the largest, a second one the sum of
// exponentials, a third one the best score of each thread. The n-th of the threads' best scores is
// a bound that n scores reach or exceed. A fourth pass lists the scores from the bound on, which
// are then sorted. When they are more than the list holds, the n-th of the listed scores is a
// greater bound, and the fourth pass is repeated with it.
//
// Traffic  4 bytes per logit in, four times; a row of 151,936 comes three times from L2.
// Numbers  those of sampling/beam_candidates.cpp, operation by operation: nothing is fused, and
//          exponentials are integers of 2^-44, whose sum does not depend on the order.
// Measured on no GPU.
#include "kernels/beam_candidates.h"

#include <cstddef>

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/row_penalties.cuh"
#include "kernels/cuda/weights_of_logits.cuh"
#include "kernels/sample_rows.h"

namespace caption::kernels::cuda {
namespace {

constexpr int kBeamThreads = 1024;
constexpr int kBeamWarps = kBeamThreads / 32;
constexpr int kBeamLoadsAhead = 2;  // 32 KiB of a block are under way
// An id in the list has a thread to sort it.
constexpr int kMostListedIds = kBeamThreads;
static_assert(sampling::kMostBeamCandidates < kMostListedIds);
static_assert(offsetof(sampling::BeamCandidate, id) == 4);

struct BeamParams {
  const float* logits;
  const BeamRow* rows;
  const std::int32_t* ids;
  std::uint64_t* best;   // [rows, row_size]: a BeamCandidate, its score in the lower half
  std::uint32_t* marks;  // [rows, 2, words]
  std::int64_t logits_stride;
  int vocab;
  int words;
  int row_size;
};

struct BeamShared {
  std::uint64_t keys[kMostListedIds];
  std::uint64_t of_warp[kBeamWarps];
  std::uint32_t num_listed;
};

// 2^44 e^x for -31 <= x <= 0: scaled_exponential() of sampling/beam_candidates.cpp.
CAPTION_DEVICE float scaled_exponential(float x) {
  constexpr float kRounding = 0x1.8p23F;
  constexpr std::uint32_t kRoundingBits = 0x4B400000;
  constexpr float kLn2High = 0x1.62e4p-1F;
  constexpr float kLn2Low = 0x1.7f7d1cp-20F;
  const float shifted = x * 0x1.715476p0F + kRounding;
  const float n = shifted - kRounding;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0F / 5040;
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  return p * float_of_bits((bits_of_float(shifted) - kRoundingBits + 127 + 44) << 23);
}

// The logarithm of x 2^-44: scaled_logarithm() of sampling/beam_candidates.cpp.
CAPTION_DEVICE double scaled_logarithm(std::uint64_t x) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  constexpr double kRootOf2 = 0x1.6a09e667f3bcdp0;
  int exponent = 0;
  while ((x >> exponent) >= std::uint64_t{2} << 44) ++exponent;
  const double unit = double_of_bits(static_cast<std::uint64_t>(1023 - 44 - exponent) << 52);
  double m = static_cast<double>(x) * unit;
  if (m > kRootOf2) {
    m *= 0.5;
    ++exponent;
  }
  const double f = (m - 1) / (m + 1);
  const double square = f * f;
  double p = 1.0 / 9;
  p = p * square + 1.0 / 7;
  p = p * square + 1.0 / 5;
  p = p * square + 1.0 / 3;
  p = p * square + 1.0;
  return exponent * kLn2 + 2 * f * p;
}

// The threads of a block at work on its row. All of them call its functions. A key has the rank of
// a number in its upper half and the complement of the id in its lower: of equal numbers the lower
// id has the greater key. 0 is the key of no id.
template <int kCount>
struct BeamScores {
  using Penalties = RowPenalties<BeamRow, kBeamThreads>;

  const BeamParams& p;
  BeamShared& shared;
  const BeamRow& how;
  Penalties penalties;
  const float* logits;
  bool is_penalised;
  float greatest = 0;
  float log_sum = 0;

  CAPTION_DEVICE BeamScores(const BeamParams& params, BeamShared& memory)
      : p(params),
        shared(memory),
        how(params.rows[block_x()]),
        penalties{how,
                  params.ids,
                  params.marks + static_cast<std::int64_t>(block_x()) * 2 * params.words,
                  params.marks + (static_cast<std::int64_t>(block_x()) * 2 + 1) * params.words,
                  params.vocab,
                  params.words},
        logits(params.logits + block_x() * params.logits_stride),
        is_penalised(penalties.are_any()) {}

  // Calls visit(id, logit) for all logits.
  template <class Visit>
  CAPTION_DEVICE void visit_logits(Visit visit) const {
    using Pack = Packed<float, kCount>;
    constexpr int kStride = kBeamThreads * kCount;
    for (int begin = 0; begin < p.vocab; begin += kStride * kBeamLoadsAhead) {
      sync_warp();  // the lanes load together, whichever of them was late in visit()
      const int own = begin + thread_index() * kCount;
      Pack packs[kBeamLoadsAhead];
      for (int a = 0; a < kBeamLoadsAhead; ++a) {
        const int first = own + a * kStride;
        if (first < p.vocab) packs[a] = load(reinterpret_cast<const Pack*>(logits + first));
      }
      for (int a = 0; a < kBeamLoadsAhead; ++a) {
        const int first = own + a * kStride;
        if (first >= p.vocab) break;
        for (int k = 0; k < kCount; ++k) visit(first + k, packs[a].x[k]);
      }
    }
  }

  static CAPTION_DEVICE std::uint64_t key_of(std::uint32_t rank, int id) {
    return static_cast<std::uint64_t>(rank) << 32 | ~static_cast<std::uint32_t>(id);
  }

  // The numbers of all threads in one; those of warps without logits do not count.
  template <class Combine>
  CAPTION_DEVICE std::uint64_t combined(std::uint64_t own, Combine combine) const {
    constexpr int kLogitsOfWarp = 32 * kCount;
    const int needed = (p.vocab + kLogitsOfWarp - 1) / kLogitsOfWarp;
    const int num_warps = needed < kBeamWarps ? needed : kBeamWarps;
    if (warp_index() < num_warps) {
      for (int mask = 16; mask > 0; mask /= 2) {
        own = combine(own, shuffle_64(own, lane_index() ^ mask));
      }
    }
    sync_block();  // what is in of_warp has been read
    if (lane_index() == 0) shared.of_warp[warp_index()] = own;
    sync_block();
    std::uint64_t all = shared.of_warp[0];
    for (int warp = 1; warp < num_warps; ++warp) all = combine(all, shared.of_warp[warp]);
    return all;
  }

  // The largest logit, the first of those that are refused.
  CAPTION_DEVICE std::uint64_t greatest_logit() const {
    std::uint64_t own = 0;
    visit_logits([&](int id, float x) {
      const std::uint64_t key = key_of(rank_of(x), id);
      own = key > own ? key : own;
    });
    return combined(own, [](std::uint64_t a, std::uint64_t b) { return a > b ? a : b; });
  }

  // The sum of 2^44 e^(x - greatest).
  CAPTION_DEVICE std::uint64_t sum_of_exponentials() const {
    std::uint64_t own = 0;
    const float max = greatest;
    visit_logits([&](int, float x) {
      x -= max;
      own += static_cast<std::uint64_t>(scaled_exponential(x > -31.0F ? x : -31.0F));
    });
    return combined(own, [](std::uint64_t a, std::uint64_t b) { return a + b; });
  }

  CAPTION_DEVICE std::uint64_t score_key(int id, float x) const {
    float log_prob = (x - greatest) - log_sum;
    if (is_penalised) log_prob = penalties.adjusted(id, log_prob);
    const std::uint32_t rank = rank_of(log_prob + how.score);
    return rank > rank_of(kRuledOut) ? key_of(rank, id) : 0;
  }

  // The keys of the threads, at most `count` of which are not 0, and these of the first threads;
  // the greatest goes to the first thread, and so on. A bitonic sort: in the step of a size and a
  // stride, threads whose indices differ by the stride put their keys in order.
  CAPTION_DEVICE std::uint64_t sorted(std::uint64_t key, int count) const {
    const int thread = thread_index();
    int extent = 1;
    while (extent < count) extent *= 2;
    const bool is_within = warp_index() * 32 < extent;
    for (int size = 2; size <= extent; size *= 2) {
      for (int stride = size / 2; stride > 0; stride /= 2) {
        std::uint64_t other = key;
        if (stride >= 32) {
          store(shared.keys + thread, key);
          sync_block();
          other = load(shared.keys + (thread ^ stride));
          sync_block();
        } else if (is_within) {
          other = shuffle_64(key, lane_index() ^ stride);
        }
        const bool takes_greater = ((thread & stride) == 0) == ((thread & size) == 0);
        if (takes_greater ? other > key : other < key) key = other;
      }
    }
    return key;
  }

  // The key of the n-th thread, n the wanted candidates; the least of an id where that is 0.
  CAPTION_DEVICE std::uint64_t bound_of(std::uint64_t key) const {
    if (thread_index() == how.num_candidates - 1) shared.of_warp[0] = key;
    sync_block();
    const std::uint64_t bound = shared.of_warp[0];
    sync_block();
    return bound == 0 ? 1 : bound;
  }

  // Lists the keys from the bound on. Returns how many there are; kMostListedIds are kept.
  CAPTION_DEVICE int list_keys(std::uint64_t bound) const {
    if (thread_index() == 0) shared.num_listed = 0;
    sync_block();
    visit_logits([&](int id, float x) {
      const std::uint64_t key = score_key(id, x);
      if (key < bound) return;
      const std::uint32_t at = atomic_add(&shared.num_listed, 1U);
      if (at < kMostListedIds) shared.keys[at] = key;
    });
    sync_block();
    return static_cast<int>(load(&shared.num_listed));
  }

  // The best keys, in the order of the threads.
  CAPTION_DEVICE std::uint64_t best_keys() const {
    std::uint64_t bound = 1;
    if (p.vocab > kMostListedIds) {
      std::uint64_t own = 0;
      visit_logits([&](int id, float x) {
        const std::uint64_t key = score_key(id, x);
        own = key > own ? key : own;
      });
      bound = bound_of(sorted(own, kBeamThreads));
    }
    for (;;) {
      const int found = list_keys(bound);
      const int kept = found < kMostListedIds ? found : kMostListedIds;
      const std::uint64_t key = thread_index() < kept ? load(shared.keys + thread_index()) : 0;
      sync_block();
      const std::uint64_t sorted_key = sorted(key, kept);
      if (found == kept) return sorted_key;
      bound = bound_of(sorted_key);
    }
  }

  CAPTION_DEVICE void write(std::uint64_t key, std::int32_t id_of_none) const {
    const int i = thread_index();
    if (i >= p.row_size) return;
    const bool is_one = i < how.num_candidates && key != 0;
    const auto id =
        is_one ? ~static_cast<std::uint32_t>(key) : static_cast<std::uint32_t>(id_of_none);
    const float score = is_one ? value_of(static_cast<std::uint32_t>(key >> 32)) : 0.0F;
    store(p.best + static_cast<std::int64_t>(block_x()) * p.row_size + i,
          static_cast<std::uint64_t>(id) << 32 | bits_of_float(score));
  }

  CAPTION_DEVICE void run() {
    if (how.num_candidates == 0) return write(0, kNoTokenLeft);
    const std::uint64_t key = greatest_logit();
    const auto rank = static_cast<std::uint32_t>(key >> 32);
    if (rank == kRefusedRank) {
      const auto id = static_cast<std::int32_t>(~static_cast<std::uint32_t>(key));
      const float x = load(logits + id);
      const std::int32_t refusal = x == x ? -3 - 2 * id : -2 - 2 * id;  // infinity_at(), nan_at()
      return write(0, thread_index() == 0 ? refusal : kNoTokenLeft);
    }
    if (rank == rank_of(kRuledOut) || how.score == kRuledOut) return write(0, kNoTokenLeft);
    if (is_penalised) penalties.mark();
    greatest = value_of(rank);
    log_sum = static_cast<float>(scaled_logarithm(sum_of_exponentials()));
    write(best_keys(), kNoTokenLeft);
  }
};

template <int kCount>
struct FindCandidates {
  static constexpr int kThreads = kBeamThreads;
  using Params = BeamParams;
  using Shared = BeamShared;

  static CAPTION_DEVICE void run(const Params& p) {
    BeamScores<kCount>(p, shared_memory<Shared>()).run();
  }
};

}  // namespace
}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

void beam_candidates(Cuda, Stream& stream, const BeamRows& input, View best) {
  const std::int64_t rows = input.logits.dim(0);
  const std::int64_t vocab = input.logits.dim(1);
  std::byte* const scratch =
      stream.scratch(static_cast<std::size_t>(beam_candidates_scratch_bytes(rows, vocab)));
  cuda::launch_packed<cuda::FindCandidates>(
      stream, {.x = static_cast<unsigned>(rows)}, cuda::choose_pack({input.logits}),
      {.logits = static_cast<const float*>(input.logits.raw()),
       .rows = static_cast<const BeamRow*>(input.rows.raw()),
       .ids = static_cast<const std::int32_t*>(input.ids.raw()),
       .best = static_cast<std::uint64_t*>(best.raw()),
       .marks = reinterpret_cast<std::uint32_t*>(scratch),
       .logits_stride = input.logits.row_stride(),
       .vocab = static_cast<int>(vocab),
       .words = static_cast<int>((vocab + 31) / 32),
       .row_size = static_cast<int>(best.dim(1))});
}

}  // namespace caption::kernels::impl
