// Tests draws, ties and invalid logits, and compares selection without sorting with sorting.
#include "sampling/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"

namespace caption::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_logits(std::int64_t vocab, unsigned seed, float scale) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> logits(static_cast<std::size_t>(vocab));
  for (float& x : logits) x = normal(rng);
  return logits;
}

TEST_SUITE("sampling/sampler") {
  TEST_CASE("greedy takes the largest logit, and the lowest id among equals") {
    Sampler sampler(5);
    std::vector<float> logits = {1, 3, -2, 3, 3};
    CHECK(sampler.sample({}, {}, logits) == 1);
    logits = {-kInf, -kInf, -7, -kInf, -7};
    CHECK(sampler.sample({}, {}, logits) == 2);
    logits = {0, -0.0F, 0, 0, 0};
    CHECK(sampler.sample({}, {}, logits) == 0);
  }

  TEST_CASE("a NaN or infinite logit, or no token left, is an error that names it") {
    Sampler sampler(3);
    for (const double temperature : {0.0, 0.7}) {
      CAPTURE(temperature);
      const SamplingParams params{.temperature = temperature};
      std::vector<float> logits = {1, kNaN, 2};
      CHECK_THROWS_WITH_AS(sampler.sample(params, {}, logits),
                           doctest::Contains("logit 1 of 3 is NaN"), Error);
      logits = {1, 2, kInf};
      CHECK_THROWS_WITH_AS(sampler.sample(params, {}, logits),
                           doctest::Contains("logit 2 of 3 is +inf"), Error);
      logits = {-kInf, -kInf, -kInf};
      CHECK_THROWS_WITH_AS(sampler.sample(params, {}, logits), doctest::Contains("every token"),
                           Error);
    }
  }

  TEST_CASE("the selection agrees with a full sort, for every k and p, ties or not") {
    for (const std::int64_t vocab : {1, 2, 100, 10'000}) {
      Sampler sampler(vocab);
      for (const float rounding : {0.0F, 0.5F}) {
        for (const std::int32_t top_k : {0, 1, 7, 64, 5000}) {
          for (const double top_p : {1.0, 0.9, 0.3}) {
            CAPTURE(vocab);
            CAPTURE(rounding);
            CAPTURE(top_k);
            CAPTURE(top_p);
            std::vector<float> logits = random_logits(vocab, 5, 2);
            if (rounding > 0) {
              for (float& x : logits) x = std::round(x / rounding) * rounding;
            }
            std::vector<std::int32_t> order(logits.size());
            std::iota(order.begin(), order.end(), 0);
            const auto at = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
            std::stable_sort(order.begin(), order.end(),
                             [&](std::int32_t a, std::int32_t b) { return at(a) > at(b); });
            if (top_k > 0 && top_k < vocab) {
              const float kth = at(order[static_cast<std::size_t>(top_k - 1)]);
              while (at(order.back()) < kth) order.pop_back();
            }
            double total = 0;
            for (const std::int32_t id : order) total += std::exp(double{at(id)});
            double mass = 0;
            std::vector<std::int32_t> expected;
            for (const std::int32_t id : order) {
              if (mass >= top_p * total && !expected.empty()) break;
              mass += std::exp(double{at(id)});
              expected.push_back(id);
            }
            std::sort(expected.begin(), expected.end());

            const auto kept =
                sampler.warp({.temperature = 1, .top_k = top_k, .top_p = top_p}, logits);
            std::vector<std::int32_t> ids;
            double sum = 0;
            for (const TokenProbability& token : kept) {
              ids.push_back(token.id);
              sum += token.probability;
            }
            std::sort(ids.begin(), ids.end());
            CHECK(ids == expected);
            CHECK(std::abs(sum - 1) < 1e-12);
          }
        }
      }
    }
  }

  TEST_CASE("top_p stops as soon as p is reached, not a token later") {
    Sampler sampler(4);
    std::vector<float> logits = {-kInf, 2, 2, -kInf};  // probability 1/2 each
    const auto kept = sampler.warp({.temperature = 1, .top_k = 0, .top_p = 0.5}, logits);
    REQUIRE(kept.size() == 1);
    CHECK(kept[0].id == 1);
    CHECK(kept[0].probability == 1);
  }

  TEST_CASE("twenty thousand draws follow the distribution") {
    constexpr int kNumDraws = 20'000;
    struct Case {
      const char* name;
      SamplingParams params;
    };
    const Case cases[] = {
        {"plain", {.temperature = 1, .top_k = 0}},
        {"hot", {.temperature = 2, .top_k = 50}},
        {"the preset", {.temperature = 0.7, .top_k = 50, .top_p = 0.9}},
    };
    const std::vector<float> row = random_logits(300, 8, 1.5F);
    Sampler sampler(300);
    for (const Case& c : cases) {
      CAPTURE(std::string(c.name));
      SamplingParams params = c.params;
      params.seed = 2025;
      std::vector<float> logits = row;
      std::map<std::int32_t, double> expected;
      for (const auto& token : sampler.warp(params, logits)) expected[token.id] = token.probability;
      std::map<std::int32_t, int> counts;
      std::vector<std::int32_t> ids;
      for (int i = 0; i < kNumDraws; ++i) {
        logits = row;
        ++counts[sampler.sample(params, {ids, 0}, logits)];
        ids.push_back(0);
      }
      double chi_square = 0;
      int num_cells = 0;
      double rare_expected = 0;  // ids with fewer than five expected draws share a cell
      int rare_count = 0;
      for (const auto& [id, probability] : expected) {
        const double mean = probability * kNumDraws;
        if (mean < 5) {
          rare_expected += mean;
          rare_count += counts[id];
        } else {
          chi_square += (counts[id] - mean) * (counts[id] - mean) / mean;
          ++num_cells;
        }
      }
      if (rare_expected > 0) {
        chi_square += (rare_count - rare_expected) * (rare_count - rare_expected) / rare_expected;
        ++num_cells;
      }
      for (const auto& [id, count] : counts) CHECK((count == 0 || expected.contains(id)));
      // Mean and deviation of chi-square with n - 1 degrees of freedom; four deviations have a
      // probability of 1 in 10^4.
      const double degrees = num_cells - 1;
      CHECK(num_cells > 10);
      CHECK(std::abs(chi_square - degrees) < 4 * std::sqrt(2 * degrees));
    }
  }

  TEST_CASE("a draw depends on the seed and the number of output tokens alone") {
    const std::vector<float> row = random_logits(500, 3, 1);
    Sampler fresh(500);
    Sampler used(500);
    const std::vector<std::int32_t> ids = {1, 2, 3, 4, 5, 6};
    const SamplingParams params{.temperature = 1, .seed = 9};
    std::vector<float> logits = row;
    const std::int32_t token = fresh.sample(params, {ids, 2}, logits);
    for (unsigned i = 0; i < 20; ++i) {
      logits = random_logits(500, i, 3);
      used.sample({.temperature = 0.5, .repetition_penalty = 2, .seed = i}, {ids, 3}, logits);
    }
    logits = row;
    CHECK(used.sample(params, {ids, 2}, logits) == token);
    logits = row;  // another prompt with the same number of output tokens
    CHECK(used.sample(params, {std::span(ids).last(5), 1}, logits) == token);

    int num_different = 0;
    for (std::uint64_t seed = 10; seed < 30; ++seed) {
      SamplingParams other = params;
      other.seed = seed;
      logits = row;
      if (used.sample(other, {ids, 2}, logits) != token) ++num_different;
    }
    CHECK(num_different > 15);
  }

  TEST_CASE("placeholder ids outside the vocabulary are passed over") {
    Sampler sampler(4);
    std::vector<float> logits = {1, 2, 3, 4};
    const std::vector<std::int32_t> ids = {32000, 3, 32000, -1, 3, 32000};
    const SamplingParams params{.repetition_penalty = 2, .no_repeat_ngram_size = 2};
    sampler.penalise(params, {ids, 6}, logits);
    CHECK(logits == std::vector<float>{1, 2, 3, -kInf});
  }

  TEST_CASE("without counts_prompt, penalties know the output only") {
    Sampler sampler(6);
    const std::vector<std::int32_t> ids = {5, 1, 2, 3,
                                           1};  // three of the prompt, two of the output
    SamplingParams params{.repetition_penalty = 2, .no_repeat_ngram_size = 2};
    std::vector<float> logits = {1, 2, 3, 4, 5, 6};
    sampler.penalise(params, {ids, 3}, logits);
    CHECK(logits == std::vector<float>{1, 1, -kInf, 2, 5, 3});  // 1 2 would repeat the prompt
    params.counts_prompt = false;
    logits = {1, 2, 3, 4, 5, 6};
    sampler.penalise(params, {ids, 3}, logits);
    CHECK(logits == std::vector<float>{1, 1, 3, 2, 5, 6});
    logits = {1, 2, 3, 4, 5, 6};
    sampler.penalise(params, {std::span(ids).first(3), 3}, logits);
    CHECK(logits == std::vector<float>{1, 2, 3, 4, 5, 6});
  }

  TEST_CASE("parameters out of range are refused by name") {
    struct Case {
      const char* name;
      SamplingParams params;
    };
    const Case cases[] = {
        {"temperature", {.temperature = -1}},
        {"temperature", {.temperature = 1e-9}},
        {"temperature", {.temperature = std::nan("")}},
        {"temperature", {.temperature = HUGE_VAL}},
        {"top_k", {.top_k = -1}},
        {"top_p", {.top_p = 0}},
        {"top_p", {.top_p = 1.01}},
        {"top_p", {.top_p = std::nan("")}},
        {"repetition_penalty", {.repetition_penalty = 0}},
        {"repetition_penalty", {.repetition_penalty = HUGE_VAL}},
        {"no_repeat_ngram_size", {.no_repeat_ngram_size = -1}},
        {"min_new_tokens", {.min_new_tokens = 11, .max_new_tokens = 10}},
        {"max_new_tokens", {.max_new_tokens = 0}},
        {"stop id 4", {.stop_ids = {4}}},
        {"stop id -1", {.stop_ids = {0, -1}}},
        {"num_beams is 0", {.num_beams = 0}},
        {"num_beams is 65", {.num_beams = 65}},
        {"that takes 5 candidates of a vocabulary of 4", {.num_beams = 5}},
        {"that takes 5 candidates", {.stop_ids = {1, 2, 3}, .num_beams = 2}},
        {"a beam search does not sample", {.temperature = 0.7, .num_beams = 2}},
        {"no log-probabilities", {.num_beams = 2, .num_logprobs = 0}},
        {"length_penalty is nan", {.length_penalty = std::nan("")}},
        {"length_penalty is inf", {.max_new_tokens = 1, .length_penalty = HUGE_VAL}},
        {"length_penalty is 20;", {.max_new_tokens = 100, .length_penalty = 20}},
        {"length_penalty is -20;", {.max_new_tokens = 100, .length_penalty = -20}},
        {"num_logprobs is -2", {.num_logprobs = -2}},
        {"num_logprobs is 5", {.num_logprobs = 5}},
    };
    for (const Case& c : cases) {
      CAPTURE(std::string(c.name));
      CHECK_THROWS_WITH_AS(validate(c.params, 4), doctest::Contains(c.name), Error);
    }
    validate({.temperature = 0.7, .top_p = 0.9, .min_new_tokens = 4, .stop_ids = {0, 3}}, 4);
    validate({.stop_ids = {3}, .num_beams = 2, .length_penalty = -1}, 4);
    validate({.temperature = 1, .num_logprobs = 4}, 4);
    const SamplingParams crowded{.stop_ids = std::vector<std::int32_t>(197, 1), .num_beams = 60};
    CHECK_THROWS_WITH_AS(validate(crowded, 1000), doctest::Contains("the most are 256"), Error);
  }
}

}  // namespace
}  // namespace caption::sampling
