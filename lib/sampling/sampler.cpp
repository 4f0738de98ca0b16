#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "sampling/beam_candidates.h"
#include "sampling/beam_search.h"
#include "sampling/internal/require_logit.h"
#include "sampling/philox.h"

namespace caption::sampling {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
// Below this, the division overflows for ordinary logits; vLLM uses the same limit for greedy.
constexpr double kMinTemperature = 1e-5;

void require(bool is_valid, const std::string& what) {
  if (!is_valid) throw Error(ErrorCode::kUsage, "sampling: " + what);
}

// Returns the index of the largest logit, the lowest among equals. Throws for NaN, +inf, and when
// all logits are -inf.
std::size_t find_largest(std::span<const float> logits) {
  std::size_t largest = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    require_logit(logits, i);
    if (logits[i] > logits[largest]) largest = i;
  }
  if (logits[largest] == kMasked) {
    throw Error(ErrorCode::kInternal,
                "sampling: every token is ruled out by no_repeat_ngram_size or min_new_tokens");
  }
  return largest;
}

void ban_repeated_ngrams(std::size_t n, std::span<const std::int32_t> ids,
                         std::span<float> logits) {
  if (ids.size() + 1 < n) return;
  const auto tail = ids.last(n - 1);
  for (std::size_t end = n - 1; end < ids.size(); ++end) {
    if (!std::equal(tail.begin(), tail.end(),
                    ids.begin() + static_cast<std::ptrdiff_t>(end + 1 - n))) {
      continue;
    }
    const auto banned = static_cast<std::uint32_t>(ids[end]);
    if (banned < logits.size()) logits[banned] = kMasked;
  }
}

// Heap order with the most probable id on top, the lowest among equals.
bool less_probable(const TokenProbability& a, const TokenProbability& b) {
  return a.probability < b.probability || (a.probability == b.probability && a.id > b.id);
}

std::string number_text(double value) {
  return std::isfinite(value) ? json_number(value) : std::to_string(value);
}

void validate_beams(const SamplingParams& params, std::int64_t vocab) {
  require(params.num_beams >= 1 && params.num_beams <= kMaxBeams,
          "num_beams is " + std::to_string(params.num_beams) + "; it must be between 1 and " +
              std::to_string(kMaxBeams));
  // The divisor n^length_penalty is a float; if it is 0 or infinite, scores are meaningless.
  const double divisor = std::pow(params.max_new_tokens, params.length_penalty);
  require(std::isfinite(params.length_penalty) && std::isnormal(static_cast<float>(divisor)),
          "length_penalty is " + number_text(params.length_penalty) +
              "; it must be finite, and max_new_tokens, " + std::to_string(params.max_new_tokens) +
              ", to that power within the range of a float");
  require(params.num_logprobs >= -1 && params.num_logprobs <= vocab,
          "num_logprobs is " + std::to_string(params.num_logprobs) +
              "; it must be -1 (none) or between 0 and the vocabulary of " + std::to_string(vocab));
  if (params.num_beams == 1) return;
  const std::string beams = "num_beams is " + std::to_string(params.num_beams);
  require(params.temperature == 0, "temperature is " + number_text(params.temperature) + " and " +
                                       beams +
                                       "; a beam search does not sample: set one of them back");
  require(params.num_logprobs == -1, "num_logprobs is " + std::to_string(params.num_logprobs) +
                                         " and " + beams +
                                         "; a beam search gives no log-probabilities per token");
  const std::string candidates = beams + "; with " + std::to_string(params.stop_ids.size()) +
                                 " stop ids that takes " +
                                 std::to_string(num_beam_candidates(params)) + " candidates of a ";
  require(num_beam_candidates(params) <= vocab,
          candidates + "vocabulary of " + std::to_string(vocab));
  require(num_beam_candidates(params) <= kMostBeamCandidates,
          candidates + "row, and the most are " + std::to_string(kMostBeamCandidates) +
              ": take no beams, or leave stop ids out of the model's eos_token_id");
}

}  // namespace

void validate(const SamplingParams& params, std::int64_t vocab) {
  const double t = params.temperature;
  require(t == 0 || (t >= kMinTemperature && std::isfinite(t)),
          "temperature is " + number_text(t) + "; it must be 0 (greedy) or at least 0.00001");
  require(params.top_k >= 0,
          "top_k is " + std::to_string(params.top_k) + "; it must be 0 (off) or more");
  require(params.top_p > 0 && params.top_p <= 1,
          "top_p is " + number_text(params.top_p) + "; it must be in (0, 1]");
  require(params.repetition_penalty > 0 && std::isfinite(params.repetition_penalty),
          "repetition_penalty is " + number_text(params.repetition_penalty) +
              "; it must be above 0 (1: off)");
  require(params.no_repeat_ngram_size >= 0, "no_repeat_ngram_size is " +
                                                std::to_string(params.no_repeat_ngram_size) +
                                                "; it must be 0 (off) or more");
  require(params.max_new_tokens >= 1,
          "max_new_tokens is " + std::to_string(params.max_new_tokens) + "; it must be at least 1");
  require(params.min_new_tokens >= 0 && params.min_new_tokens <= params.max_new_tokens,
          "min_new_tokens is " + std::to_string(params.min_new_tokens) +
              "; it must be between 0 and max_new_tokens, " +
              std::to_string(params.max_new_tokens));
  for (const std::int32_t id : params.stop_ids) {
    require(id >= 0 && id < vocab, "stop id " + std::to_string(id) +
                                       " is not in the vocabulary of " + std::to_string(vocab));
  }
  validate_beams(params, vocab);
}

Sampler::Sampler(std::int64_t vocab)
    : seen_at_(static_cast<std::size_t>(vocab), 0), largest_(seen_at_.size()) {
  kept_.reserve(seen_at_.size());
}

std::int32_t Sampler::sample(const SamplingParams& params, const History& history,
                             std::span<float> logits) {
  penalise(params, history, logits);
  if (params.temperature == 0) return static_cast<std::int32_t>(find_largest(logits));
  const std::span<const TokenProbability> kept = warp(params, logits);
  const double target = uniform_draw(params.seed, static_cast<std::uint64_t>(history.num_output()));
  double sum = 0;
  for (const TokenProbability& token : kept) {
    sum += token.probability;
    if (sum > target) return token.id;
  }
  // The probabilities sum to 1 within rounding, and the draw was above the sum.
  const auto last = std::find_if(kept.rbegin(), kept.rend(),
                                 [](const TokenProbability& t) { return t.probability > 0; });
  return last->id;
}

void Sampler::penalise(const SamplingParams& params, const History& history,
                       std::span<float> logits) {
  CAPTION_CHECK(logits.size() == seen_at_.size(), "sampling: logits of another vocabulary");
  const std::span<const std::int32_t> counted =
      params.counts_prompt ? history.ids
                           : history.ids.subspan(static_cast<std::size_t>(history.num_prompt));
  if (params.repetition_penalty != 1.0) {
    penalise_repetition(static_cast<float>(params.repetition_penalty), counted, logits);
  }
  if (params.no_repeat_ngram_size > 0) {
    ban_repeated_ngrams(static_cast<std::size_t>(params.no_repeat_ngram_size), counted, logits);
  }
  if (history.num_output() < params.min_new_tokens) {
    for (const std::int32_t id : params.stop_ids) logits[static_cast<std::size_t>(id)] = kMasked;
  }
}

void Sampler::penalise_repetition(float penalty, std::span<const std::int32_t> ids,
                                  std::span<float> logits) {
  if (++call_ == 0) {  // the call counter wrapped around
    std::fill(seen_at_.begin(), seen_at_.end(), 0);
    call_ = 1;
  }
  for (const std::int32_t signed_id : ids) {
    const auto id = static_cast<std::uint32_t>(signed_id);
    if (id >= logits.size() || seen_at_[id] == call_) continue;
    seen_at_[id] = call_;
    float& x = logits[id];
    x = x < 0 ? x * penalty : x / penalty;
  }
}

std::span<const TokenProbability> Sampler::warp(const SamplingParams& params,
                                                std::span<float> logits) {
  CAPTION_CHECK(logits.size() == seen_at_.size(), "sampling: logits of another vocabulary");
  CAPTION_CHECK(params.temperature > 0, "sampling: a greedy request has no distribution");
  const auto temperature = static_cast<float>(params.temperature);
  for (float& x : logits) x /= temperature;
  const double max = logits[find_largest(logits)];

  const bool limits_k = params.top_k > 0 && params.top_k < std::ssize(logits);
  const float threshold = limits_k ? kth_largest(logits, params.top_k) : kMasked;
  kept_.clear();
  double sum = 0;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] < threshold || logits[id] == kMasked) continue;
    const double weight = std::exp(static_cast<double>(logits[id]) - max);
    sum += weight;
    kept_.push_back({static_cast<std::int32_t>(id), weight});
  }

  std::span<TokenProbability> kept = kept_;
  if (params.top_p < 1) {
    // A heap yields the ids one by one, so only the kept ones are sorted.
    std::make_heap(kept.begin(), kept.end(), less_probable);
    auto heap_end = kept.end();
    double kept_sum = 0;
    while (heap_end != kept.begin() && (kept_sum == 0 || kept_sum < params.top_p * sum)) {
      std::pop_heap(kept.begin(), heap_end, less_probable);
      --heap_end;
      kept_sum += heap_end->probability;
    }
    kept = kept.subspan(static_cast<std::size_t>(heap_end - kept.begin()));
    sum = kept_sum;
  }
  for (TokenProbability& token : kept) token.probability /= sum;
  return kept;
}

// Reads the logits once and collects the k best so far plus those that beat the k-th of them; the
// collection is cut to k when it is full.
float Sampler::kth_largest(std::span<const float> logits, std::int64_t k) {
  // The capacity of a few thousand makes the cuts rare for usual k (50).
  const auto capacity =
      std::min<std::int64_t>(std::max<std::int64_t>(2 * k, 4096), std::ssize(logits));
  float kth = kMasked;
  std::int64_t count = 0;
  const auto cut = [&] {
    std::nth_element(largest_.begin(), largest_.begin() + (k - 1), largest_.begin() + count,
                     std::greater<>());
    kth = largest_[static_cast<std::size_t>(k - 1)];
    count = k;
  };
  for (const float x : logits) {
    if (x <= kth) continue;
    if (count == capacity) cut();
    largest_[static_cast<std::size_t>(count++)] = x;
  }
  if (count >= k) cut();
  return kth;
}

}  // namespace caption::sampling
