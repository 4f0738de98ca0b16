// A block per row: a pass over the logits that applies penalties and finds the largest, and for a
// drawn token some passes more, each of which narrows a selection by seven bits (select()).
//
// Traffic  4 bytes per logit in. Drawn: 4 out, then 4 in per pass, from L2: five passes for top_k,
//          three for the draw; with top_p 10 instead of those 3, and up to 6 where logits are
//          equal. What top_k keeps is listed in shared memory in one pass more, if it is at most
//          kMostListed, and the passes after that read the list.
// Numbers  weights are integers of 2^-44, whose sums do not depend on the order of the additions.
// Measured on no GPU.
#include "kernels/sample_rows.h"

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/row_penalties.cuh"
#include "kernels/cuda/weights_of_logits.cuh"

namespace caption::kernels::cuda {
namespace {

constexpr int kSampleThreads = 1024;
constexpr int kSampleWarps = kSampleThreads / 32;
constexpr int kDigitBits = 7;
constexpr int kDigits = 1 << kDigitBits;
// A thread's loads before it uses the first: 32 KiB of a block are under way.
constexpr int kLoadsAhead = 2;
constexpr int kMostListed = kSampleThreads;
constexpr int kTotalsStride = kDigits / 4 + 1;  // so that four lanes store to four banks
constexpr int kDigitsOfRank = 5;                // 32 bits
constexpr int kDigitsOfId = 3;                  // 21 bits
constexpr std::uint32_t kLastId = (1U << (kDigitsOfId * kDigitBits)) - 1;
static_assert(kSampleThreads == 8 * kDigits);  // sum_digits()
static_assert(kMaxSampledVocab < kLastId);

struct SampleParams {
  const float* logits;
  const RowSampling* rows;
  const std::int32_t* ids;
  std::int32_t* tokens;
  float* values;         // [rows, padded]: logits after penalties and temperature, then -inf
  std::uint32_t* marks;  // [rows, 2, words]: a bit per id that is penalised, that is ruled out
  std::int64_t logits_stride;
  int vocab;
  int padded;  // a multiple of 4
  int words;
};

// ---- a row ----
// What select() finds.
struct Selected {
  std::uint32_t key;
  std::uint64_t rest;   // what the elements with lesser keys leave of the limit
  std::uint64_t total;  // weight of the elements with this key
};

struct SampleShared {
  // Sums by digit; each lane has its own, so that the lanes of a warp are in 32 banks.
  std::uint32_t low[kDigits * 32];
  std::uint32_t high[kDigits * 32];
  std::uint64_t totals[4 * kTotalsStride];  // that of digit d at d % 4 * kTotalsStride + d / 4
  std::uint64_t greatest[kSampleWarps];
  Selected found;
  std::uint32_t num_listed;
  std::uint32_t listed_ids[kMostListed];
  float listed_values[kMostListed];
};

// The threads of a block at work on its row. All of them call its functions.
struct RowSampler {
  const SampleParams& p;
  SampleShared& shared;
  const RowSampling& how;
  float* values;
  RowPenalties<RowSampling, kSampleThreads> penalties;
  int num_listed = 0;  // 0: selections read all values

  CAPTION_DEVICE RowSampler(const SampleParams& params, SampleShared& memory)
      : p(params),
        shared(memory),
        how(params.rows[block_x()]),
        values(params.values + static_cast<std::int64_t>(block_x()) * params.padded),
        penalties{how,
                  params.ids,
                  params.marks + static_cast<std::int64_t>(block_x()) * 2 * params.words,
                  params.marks + (static_cast<std::int64_t>(block_x()) * 2 + 1) * params.words,
                  params.vocab,
                  params.words} {}

  // ---- the largest ----
  CAPTION_DEVICE std::uint64_t greatest_of_block(std::uint64_t x) const {
    x = greatest_of_warp_64(x);
    if (lane_index() == 0) shared.greatest[warp_index()] = x;
    sync_block();
    return greatest_of_warp_64(shared.greatest[lane_index()]);
  }

  // Applies penalties and temperature, and writes the values unless the temperature is 0. Returns
  // the rank of the largest in the upper half, the complement of its lowest id in the lower.
  template <int kCount>
  CAPTION_DEVICE std::uint64_t prepare() const {
    using Pack = Packed<float, kCount>;
    const bool is_marked = penalties.are_any();
    if (is_marked) penalties.mark();
    const float* const logits = p.logits + block_x() * p.logits_stride;
    const float temperature = how.temperature;
    std::uint64_t greatest = 0;
    constexpr int kStride = kSampleThreads * kCount;
    for (int begin = thread_index() * kCount; begin < p.padded; begin += kStride * kLoadsAhead) {
      Pack packs[kLoadsAhead];
      for (int a = 0; a < kLoadsAhead; ++a) {
        for (int k = 0; k < kCount; ++k) packs[a].x[k] = kRuledOut;
        const int first = begin + a * kStride;
        if (first < p.vocab) packs[a] = load(reinterpret_cast<const Pack*>(logits + first));
      }
      for (int a = 0; a < kLoadsAhead; ++a) {
        const int first = begin + a * kStride;
        if (first >= p.padded) break;
        Pack& x = packs[a];
        for (int k = 0; k < kCount; ++k) {
          if (is_marked && first < p.vocab) x.x[k] = penalties.adjusted(first + k, x.x[k]);
          if (temperature != 0) x.x[k] = divide(x.x[k], temperature);
          const auto id = static_cast<std::uint32_t>(first + k);
          const std::uint64_t own = static_cast<std::uint64_t>(rank_of(x.x[k])) << 32 | ~id;
          greatest = own > greatest ? own : greatest;
        }
        if (temperature != 0) store(reinterpret_cast<Pack*>(values + first), x);
      }
    }
    return greatest_of_block(greatest);
  }

  // Calls visit(id, value) for the listed values, or for all of them.
  template <class Visit>
  CAPTION_DEVICE void visit_values(Visit visit) const {
    using Pack = Packed<float, 4>;
    if (num_listed > 0) {
      const int i = thread_index();
      if (i < num_listed) visit(shared.listed_ids[i], shared.listed_values[i]);
      return;
    }
    constexpr int kStride = kSampleThreads * 4;
    for (int begin = 0; begin < p.padded; begin += kStride * kLoadsAhead) {
      sync_warp();  // the lanes load together, whichever of them was late in visit()
      const int own = begin + thread_index() * 4;
      Pack packs[kLoadsAhead];
      for (int a = 0; a < kLoadsAhead; ++a) {
        const int first = own + a * kStride;
        if (first < p.padded) packs[a] = load(reinterpret_cast<const Pack*>(values + first));
      }
      for (int a = 0; a < kLoadsAhead; ++a) {
        const int first = own + a * kStride;
        if (first >= p.padded) break;
        for (int k = 0; k < 4; ++k) visit(static_cast<std::uint32_t>(first + k), packs[a].x[k]);
      }
    }
  }

  // Lists the values of at least this rank, unless they are more than kMostListed.
  CAPTION_DEVICE void list_values(std::uint32_t least) {
    if (thread_index() == 0) shared.num_listed = 0;
    sync_block();
    visit_values([&](std::uint32_t id, float x) {
      if (rank_of(x) < least) return;
      const std::uint32_t at = atomic_add(&shared.num_listed, 1U);
      if (at >= kMostListed) return;
      shared.listed_ids[at] = id;
      shared.listed_values[at] = x;
    });
    sync_block();
    const auto count = static_cast<int>(load(&shared.num_listed));
    num_listed = count <= kMostListed ? count : 0;
  }

  // ---- selection ----
  CAPTION_DEVICE void add(std::uint32_t digit, std::uint64_t weight) const {
    const int at = static_cast<int>(digit) * 32 + lane_index();
    const auto low = static_cast<std::uint32_t>(weight);
    const bool carries = atomic_add(shared.low + at, low) + low < low;
    const std::uint32_t high = static_cast<std::uint32_t>(weight >> 32) + (carries ? 1 : 0);
    if (high != 0) atomic_add(shared.high + at, high);
  }

  // Eight threads sum a digit.
  CAPTION_DEVICE void sum_digits() const {
    const int digit = thread_index() / 8;
    const int first = thread_index() * 4;
    const auto low = load(reinterpret_cast<const Bytes16*>(shared.low + first));
    const auto high = load(reinterpret_cast<const Bytes16*>(shared.high + first));
    std::uint64_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<std::uint64_t>(high.word[i]) << 32 | low.word[i];
    for (int mask = 4; mask > 0; mask /= 2) sum += shuffle_64(sum, lane_index() ^ mask);
    if (thread_index() % 8 == 0) shared.totals[digit % 4 * kTotalsStride + digit / 4] = sum;
  }

  // The digit at which the running sum of the totals exceeds the limit; all lanes of a warp call
  // it. limit_of(sum of all totals) is the limit.
  template <class LimitOf>
  CAPTION_DEVICE Selected find_digit(LimitOf limit_of) const {
    std::uint64_t own[4];
    std::uint64_t sum = 0;
    for (int k = 0; k < 4; ++k) {
      own[k] = shared.totals[k * kTotalsStride + lane_index()];
      sum += own[k];
    }
    const std::uint64_t running = running_sum_of_warp_64(sum);
    const std::uint64_t limit = limit_of(shuffle_64(running, 31));
    const std::uint32_t votes = vote(running > limit);
    int lane = 0;
    while (lane < 31 && (votes >> lane & 1) == 0) ++lane;
    std::uint64_t before = shuffle_64(running - sum, lane);
    int digit = lane * 4;
    std::uint64_t total = shuffle_64(own[0], lane);
    for (int k = 1; k < 4; ++k) {
      const std::uint64_t next = shuffle_64(own[k], lane);
      if (digit != lane * 4 + k - 1 || before + total > limit) continue;
      before += total;
      total = next;
      ++digit;
    }
    return {.key = static_cast<std::uint32_t>(digit), .rest = limit - before, .total = total};
  }

  // Among the values for which key_of(id, value, key) is true, the smallest key such that the
  // weights of it and the lesser keys sum to more than limit_of(the sum of all weights).
  template <class KeyOf, class WeightOf, class LimitOf>
  CAPTION_DEVICE Selected select(int num_digits, KeyOf key_of, WeightOf weight_of,
                                 LimitOf limit_of) const {
    std::uint64_t prefix = 0;
    Selected found{};
    for (int digit = num_digits - 1; digit >= 0; --digit) {
      for (int i = thread_index(); i < kDigits * 32; i += kSampleThreads) {
        shared.low[i] = 0;
        shared.high[i] = 0;
      }
      sync_block();
      const int shift = digit * kDigitBits;
      visit_values([&](std::uint32_t id, float x) {
        std::uint32_t key = 0;
        if (!key_of(id, x, key)) return;
        const std::uint64_t upper = static_cast<std::uint64_t>(key) >> shift;
        if (upper >> kDigitBits == prefix) add(upper % kDigits, weight_of(x));
      });
      sync_block();
      sum_digits();
      sync_block();
      const bool is_first = digit == num_digits - 1;
      const std::uint64_t rest = found.rest;
      if (warp_index() == 0) {
        found = find_digit([&](std::uint64_t total) { return is_first ? limit_of(total) : rest; });
        if (thread_index() == 0) shared.found = found;
      }
      sync_block();
      found = shared.found;
      prefix = prefix << kDigitBits | found.key;
    }
    found.key = static_cast<std::uint32_t>(prefix);
    return found;
  }

  // The id that has `count` ids with this rank before it, in ascending or descending order, of
  // those up to `last`.
  CAPTION_DEVICE std::uint32_t nth_id(std::uint32_t rank, std::uint64_t count, std::uint32_t last,
                                      bool is_ascending) const {
    const auto key_of = [=](std::uint32_t id, float x, std::uint32_t& key) {
      key = is_ascending ? id : kLastId - id;
      return rank_of(x) == rank && id <= last;
    };
    const Selected found = select(
        kDigitsOfId, key_of, [](float) { return std::uint64_t{1}; },
        [=](std::uint64_t) { return count; });
    return is_ascending ? found.key : kLastId - found.key;
  }

  // ---- the draw ----
  // The smallest rank that top_k keeps; above that of ids that are ruled out.
  CAPTION_DEVICE std::uint32_t least_rank() const {
    const std::uint32_t above_ruled_out = rank_of(kRuledOut) + 1;
    if (how.top_k <= 0 || how.top_k >= p.vocab) return above_ruled_out;
    const auto key_of = [](std::uint32_t, float x, std::uint32_t& key) {
      key = ~rank_of(x);
      return true;
    };
    const auto limit = static_cast<std::uint64_t>(how.top_k - 1);
    const Selected found = select(
        kDigitsOfRank, key_of, [](float) { return std::uint64_t{1}; },
        [=](std::uint64_t) { return limit; });
    return ~found.key > above_ruled_out ? ~found.key : above_ruled_out;
  }

  CAPTION_DEVICE std::uint32_t draw(float greatest) {
    const std::uint32_t least = least_rank();
    if (how.top_k > 0 && how.top_k <= kMostListed && how.top_k < p.vocab) list_values(least);
    const double uniform = uniform_draw(how.seed, how.draw);
    const auto weight_of = [=](float x) {
      return scaled_exponential(static_cast<double>(x) - static_cast<double>(greatest));
    };
    const auto target_of = [=](std::uint64_t sum) {
      const auto target = static_cast<std::uint64_t>(uniform * static_cast<double>(sum));
      return target < sum ? target : sum - 1;
    };
    if (how.top_p < 1) return draw_likeliest(least, weight_of, target_of);
    const auto key_of = [=](std::uint32_t id, float x, std::uint32_t& key) {
      key = id;
      return rank_of(x) >= least;
    };
    return select(kDigitsOfId, key_of, weight_of, target_of).key;
  }

  // With top_p: from the least likely id that is kept to the likeliest, of equal ones the highest
  // id first.
  template <class WeightOf, class TargetOf>
  CAPTION_DEVICE std::uint32_t draw_likeliest(std::uint32_t least, WeightOf weight_of,
                                              TargetOf target_of) const {
    const double top_p = how.top_p;
    const auto descending = [=](std::uint32_t, float x, std::uint32_t& key) {
      key = ~rank_of(x);
      return rank_of(x) >= least;
    };
    const Selected limit = select(kDigitsOfRank, descending, weight_of, [=](std::uint64_t sum) {
      const double wanted = top_p * static_cast<double>(sum);
      const auto floor = static_cast<std::uint64_t>(wanted);
      // The sum of the kept is `wanted` or more: above the greatest integer below it.
      const std::uint64_t below = static_cast<double>(floor) < wanted ? floor : floor - 1;
      return floor == 0 ? 0 : (below < sum ? below : sum - 1);
    });
    const std::uint32_t rank = ~limit.key;
    const std::uint64_t kept = limit.rest / weight_of(value_of(rank)) + 1;  // elements of this rank
    const bool are_all_kept = kept * weight_of(value_of(rank)) == limit.total;
    const std::uint32_t last = are_all_kept ? kLastId : nth_id(rank, kept - 1, kLastId, true);
    const auto ascending = [=](std::uint32_t id, float x, std::uint32_t& key) {
      key = rank_of(x);
      return key > rank || (key == rank && id <= last);
    };
    const Selected drawn = select(kDigitsOfRank, ascending, weight_of, target_of);
    const std::uint64_t count = drawn.rest / weight_of(value_of(drawn.key));
    return nth_id(drawn.key, count, drawn.key == rank ? last : kLastId, false);
  }

  CAPTION_DEVICE std::int32_t choose(std::uint64_t greatest) {
    const auto rank = static_cast<std::uint32_t>(greatest >> 32);
    const auto id = static_cast<std::int32_t>(~static_cast<std::uint32_t>(greatest));
    if (rank == kRefusedRank) return refusal_of(id);
    if (rank == rank_of(kRuledOut)) return kNoTokenLeft;
    if (how.temperature == 0) return id;
    return static_cast<std::int32_t>(draw(value_of(rank)));
  }

  // An infinity may come of the division by the temperature.
  CAPTION_DEVICE std::int32_t refusal_of(std::int32_t id) const {
    const float x = load(p.logits + block_x() * p.logits_stride + id);
    return x == x ? -3 - 2 * id : -2 - 2 * id;
  }
};

template <int kCount>
struct SampleRow {
  static constexpr int kThreads = kSampleThreads;
  using Params = SampleParams;
  using Shared = SampleShared;

  static CAPTION_DEVICE void run(const Params& p) {
    RowSampler row(p, shared_memory<Shared>());
    const std::int32_t token = row.choose(row.template prepare<kCount>());
    if (thread_index() == 0) store(p.tokens + block_x(), token);
  }
};

}  // namespace
}  // namespace caption::kernels::cuda

namespace caption::kernels::impl {

void sample_rows(Cuda, Stream& stream, const SampleRows& input, View tokens) {
  const std::int64_t rows = input.logits.dim(0);
  const std::int64_t vocab = input.logits.dim(1);
  const std::int64_t padded = (vocab + 3) / 4 * 4;
  const std::int64_t words = (vocab + 31) / 32;
  std::byte* const scratch =
      stream.scratch(static_cast<std::size_t>(sample_rows_scratch_bytes(rows, vocab)));
  auto* const values = reinterpret_cast<float*>(scratch);
  cuda::launch_packed<cuda::SampleRow>(
      stream, {.x = static_cast<unsigned>(rows)}, cuda::choose_pack({input.logits}),
      {.logits = static_cast<const float*>(input.logits.raw()),
       .rows = static_cast<const RowSampling*>(input.rows.raw()),
       .ids = static_cast<const std::int32_t*>(input.ids.raw()),
       .tokens = static_cast<std::int32_t*>(tokens.raw()),
       .values = values,
       .marks = reinterpret_cast<std::uint32_t*>(values + rows * padded),
       .logits_stride = input.logits.row_stride(),
       .vocab = static_cast<int>(vocab),
       .padded = static_cast<int>(padded),
       .words = static_cast<int>(words)});
}

}  // namespace caption::kernels::impl
