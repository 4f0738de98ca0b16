#include "sampling/beam_candidates.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace caption::sampling {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

std::vector<float> drawn_logits(std::size_t count, unsigned seed, float width) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, width);
  std::vector<float> logits(count);
  for (float& x : logits) x = normal(rng);
  return logits;
}

// Every candidate by its definition, best first.
std::vector<BeamCandidate> sorted_candidates(const SamplingParams& params, const History& history,
                                             float score, const std::vector<float>& logits) {
  const float max = *std::max_element(logits.begin(), logits.end());
  const float log_sum = log_sum_exp(logits, max);
  std::vector<float> log_probs;
  for (const float x : logits) log_probs.push_back((x - max) - log_sum);
  Sampler sampler(std::ssize(logits));
  sampler.penalise(params, history, log_probs);
  std::vector<BeamCandidate> all;
  for (std::size_t i = 0; i < log_probs.size(); ++i) {
    const float sum = log_probs[i] + score;
    if (sum > kMinusInfinity) all.push_back({sum, static_cast<std::int32_t>(i)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  return all;
}

TEST_SUITE("sampling/beam_candidates") {
  TEST_CASE("the logarithm of the sum is within its bound") {
    for (const std::size_t count : {1U, 2U, 17U, 600U, 40000U}) {
      for (const float width : {0.0F, 1.0F, 8.0F, 60.0F}) {
        CAPTURE(count);
        CAPTURE(width);
        const std::vector<float> logits = drawn_logits(count, 3, width);
        const float max = *std::max_element(logits.begin(), logits.end());
        double sum = 0;
        for (const float x : logits) sum += std::exp(static_cast<double>(x - max));
        const double want = std::log(sum);
        // An exponential's error relative to it, the integers', and half a unit of the float.
        const double bound =
            0x1p-23 + 0x1p-44 * static_cast<double>(count) + 0x1p-24 * std::max(want, 0x1p-20);
        CHECK(std::abs(static_cast<double>(log_sum_exp(logits, max)) - want) <= bound);
      }
    }
    const std::vector<float> apart = {-40, 3, kMinusInfinity, -1e30F};
    CHECK(log_sum_exp(apart, 3) == 0);
  }

  TEST_CASE("the candidates are the best by definition, in order, for any number of them") {
    const std::vector<std::int32_t> ids = {4, 9, 4, 7, 9, 4};
    for (const float width : {0.0F, 1.0F, 12.0F}) {
      const std::vector<float> logits = drawn_logits(300, 5, width);
      BeamScorer scorer(300);
      for (const double penalty : {1.0, 1.5, 0.5}) {
        const SamplingParams params{.repetition_penalty = penalty,
                                    .no_repeat_ngram_size = 2,
                                    .min_new_tokens = 4,
                                    .max_new_tokens = 9,
                                    .stop_ids = {0, 2}};
        const History history{.ids = ids, .num_prompt = 3};
        const std::vector<BeamCandidate> want = sorted_candidates(params, history, -3, logits);
        CHECK(want.size() == 296);  // 7 and 9 have followed 4, 0 and 2 would end the output
        for (const std::size_t count : {1U, 2U, 8U, 300U}) {
          std::vector<BeamCandidate> best(count);
          const std::int64_t found = scorer.find(running_beam(params, history, -3), logits, best);
          REQUIRE(found == std::min<std::int64_t>(count, 296));
          for (std::size_t i = 0; i < static_cast<std::size_t>(found); ++i) {
            CHECK(best[i].id == want[i].id);
            CHECK(best[i].score == want[i].score);
          }
        }
      }
    }
  }

  TEST_CASE("a row or a beam without a continuation has no candidates") {
    BeamScorer scorer(3);
    std::vector<BeamCandidate> best(3);
    const std::vector<float> none(3, kMinusInfinity);
    const std::vector<float> one = {kMinusInfinity, -3e38F, kMinusInfinity};
    CHECK(scorer.find({}, none, best) == 0);
    CHECK(scorer.find({.score = kMinusInfinity}, one, best) == 0);
    CHECK(scorer.find({.score = -1}, one, best) == 1);
    CHECK(best[0].id == 1);
    CHECK(best[0].score == -1);
  }
}

}  // namespace
}  // namespace caption::sampling
