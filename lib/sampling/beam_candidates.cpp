#include "sampling/beam_candidates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/error.h"
#include "sampling/internal/require_logit.h"

namespace caption::sampling {
namespace {

constexpr float kNoScore = -std::numeric_limits<float>::infinity();
constexpr int kExponentialScale = 44;

// 2^44 e^x for -31 <= x <= 0, with x = n ln 2 + r and the Taylor polynomial of e^r to r^7, whose
// rest is below 2^-27 for |r| <= ln(2) / 2; the roundings of its sums are less than 2^-23 of it.
float scaled_exponential(float x) {
  constexpr float kRounding = 0x1.8p23F;  // adding it rounds |x| < 2^22 to an integer
  constexpr std::uint32_t kRoundingBits = 0x4B400000;
  // ln 2 in two parts: the product of the first with |n| < 2^8 is exact.
  constexpr float kLn2High = 0x1.62e4p-1F;
  constexpr float kLn2Low = 0x1.7f7d1cp-20F;
  const float shifted = x * 0x1.715476p0F + kRounding;  // 1 / ln 2
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
  const std::uint32_t exponent =
      std::bit_cast<std::uint32_t>(shifted) - kRoundingBits + 127 + kExponentialScale;
  return p * std::bit_cast<float>(exponent << 23);
}

// The natural logarithm of x 2^-44, for 2^44 <= x < 2^64, within 2^-30 of it: with 2^n m for that
// and f = (m - 1) / (m + 1), |f| < 0.172, it is n ln 2 + 2 f (1 + f^2 / 3 + ... + f^8 / 9).
double scaled_logarithm(std::uint64_t x) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  constexpr double kRootOf2 = 0x1.6a09e667f3bcdp0;
  int n = 0;
  while ((x >> n) >= std::uint64_t{2} << kExponentialScale) ++n;
  const auto unit =
      std::bit_cast<double>(static_cast<std::uint64_t>(1023 - kExponentialScale - n) << 52);
  double m = static_cast<double>(x) * unit;
  if (m > kRootOf2) {
    m *= 0.5;
    ++n;
  }
  const double f = (m - 1) / (m + 1);
  const double square = f * f;
  double p = 1.0 / 9;
  for (int k = 7; k >= 1; k -= 2) p = p * square + 1.0 / k;
  return n * kLn2 + 2 * f * p;
}

// Throws for a logit that is NaN or +inf.
float greatest_of(std::span<const float> logits) {
  // Lanes, so that the compiler takes several logits at a time.
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> greatest;
  greatest.fill(kNoScore);
  std::array<std::uint32_t, kLanes> num_refused{};
  const std::size_t whole = logits.size() / kLanes * kLanes;
  for (std::size_t first = 0; first < whole; first += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float x = logits[first + lane];
      greatest[lane] = x > greatest[lane] ? x : greatest[lane];
      num_refused[lane] += x <= std::numeric_limits<float>::max() ? 0U : 1U;
    }
  }
  const bool is_sound = std::all_of(num_refused.begin(), num_refused.end(),
                                    [](std::uint32_t count) { return count == 0; });
  float max = *std::max_element(greatest.begin(), greatest.end());
  for (std::size_t i = is_sound ? whole : 0; i < logits.size(); ++i) {
    require_logit(logits, i);
    max = std::max(max, logits[i]);
  }
  return max;
}

// Heap order with the worst candidate on top.
bool is_better(const BeamCandidate& a, const BeamCandidate& b) {
  return a.score > b.score || (a.score == b.score && a.id < b.id);
}

}  // namespace

RunningBeam running_beam(const SamplingParams& params, const History& history, float score) {
  RunningBeam beam{.score = score,
                   .repetition_penalty = static_cast<float>(params.repetition_penalty),
                   .no_repeat_ngram_size = params.no_repeat_ngram_size};
  if (beam.repetition_penalty != 1 || beam.no_repeat_ngram_size > 0) {
    beam.counted_ids = params.counts_prompt
                           ? history.ids
                           : history.ids.subspan(static_cast<std::size_t>(history.num_prompt));
  }
  if (history.num_output() < params.min_new_tokens) beam.ruled_out = params.stop_ids;
  return beam;
}

std::int64_t num_beam_candidates(const SamplingParams& params) {
  return params.num_beams + std::ssize(params.stop_ids);
}

float log_sum_exp(std::span<const float> logits, float max) {
  constexpr std::size_t kPiece = 512;
  constexpr float kLeast = -31.0F;  // 2^44 e^-31 < 1
  std::array<float, kPiece> piece;
  std::uint64_t sum = 0;
  for (std::size_t first = 0; first < logits.size(); first += kPiece) {
    const auto part = logits.subspan(first, std::min(kPiece, logits.size() - first));
    // Loops of their own, so that the compiler takes several logits at a time.
    for (std::size_t i = 0; i < part.size(); ++i) {
      const float x = part[i] - max;
      piece[i] = x > kLeast ? x : kLeast;
    }
    for (std::size_t i = 0; i < part.size(); ++i) piece[i] = scaled_exponential(piece[i]);
    for (std::size_t i = 0; i < part.size(); ++i) {
      sum += static_cast<std::uint64_t>(static_cast<std::int64_t>(piece[i]));
    }
  }
  return static_cast<float>(scaled_logarithm(sum));
}

BeamScorer::BeamScorer(std::int64_t vocab)
    : sampler_(vocab), log_probs_(static_cast<std::size_t>(vocab)) {}

std::int64_t BeamScorer::find(const RunningBeam& beam, std::span<const float> logits,
                              std::span<BeamCandidate> best) {
  CAPTION_CHECK(logits.size() == log_probs_.size(), "sampling: logits of another vocabulary");
  const float max = greatest_of(logits);
  if (max == kNoScore || beam.score == kNoScore || best.empty()) return 0;
  const float log_sum = log_sum_exp(logits, max);
  for (std::size_t i = 0; i < logits.size(); ++i) log_probs_[i] = (logits[i] - max) - log_sum;
  SamplingParams penalties;
  penalties.repetition_penalty = static_cast<double>(beam.repetition_penalty);
  penalties.no_repeat_ngram_size = beam.no_repeat_ngram_size;
  sampler_.penalise(penalties, {.ids = beam.counted_ids}, log_probs_);
  for (const std::int32_t id : beam.ruled_out) log_probs_[static_cast<std::size_t>(id)] = kNoScore;

  // Ids ascend, so that a candidate that equals the worst kept one is not kept.
  const auto begin = best.begin();
  auto end = begin;
  float worst = kNoScore;
  for (std::size_t id = 0; id < log_probs_.size(); ++id) {
    const float sum = log_probs_[id] + beam.score;
    if (!(sum > worst)) continue;
    if (end == best.end()) {
      std::pop_heap(begin, end, is_better);
      --end;
    }
    *end++ = {sum, static_cast<std::int32_t>(id)};
    std::push_heap(begin, end, is_better);
    if (end == best.end()) worst = begin->score;
  }
  std::sort_heap(begin, end, is_better);
  return end - begin;
}

}  // namespace caption::sampling
