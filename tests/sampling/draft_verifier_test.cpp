// Tests that tokens verified with drafts have the target's distribution, whatever is proposed.
#include "sampling/draft_verifier.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sampling/sampler.h"

namespace caption::sampling {
namespace {

using Ids = std::vector<std::int32_t>;
using Pair = std::pair<std::int32_t, std::int32_t>;

constexpr std::int32_t kVocab = 12;
constexpr int kNumDraws = 20'000;
const Ids kPrompt = {3, 5, 3};

// The logits after a token, for every token.
std::vector<std::vector<float>> random_rows(unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, 0.8F);
  std::vector<std::vector<float>> rows(kVocab, std::vector<float>(kVocab));
  for (auto& row : rows) {
    for (float& logit : row) logit = normal(rng);
  }
  return rows;
}

class Target {
 public:
  explicit Target(const SamplingParams& params) : params_(params), rows_(random_rows(11)) {}

  std::int32_t sample(const Ids& ids, std::uint64_t seed) {
    SamplingParams params = params_;
    params.seed = seed;
    std::vector<float> logits = rows_[static_cast<std::size_t>(ids.back())];
    return sampler_.sample(params, {ids, std::ssize(kPrompt)}, logits);
  }
  std::map<std::int32_t, double> distribution(const Ids& ids) {
    std::vector<float> logits = rows_[static_cast<std::size_t>(ids.back())];
    sampler_.penalise(params_, {ids, std::ssize(kPrompt)}, logits);
    std::map<std::int32_t, double> probabilities;
    for (const TokenProbability& token : sampler_.warp(params_, logits)) {
      probabilities[token.id] = token.probability;
    }
    return probabilities;
  }

 private:
  SamplingParams params_;
  std::vector<std::vector<float>> rows_;
  Sampler sampler_{kVocab};
};

// Tells whether `draft` takes the place of the token that was chosen from the row after `ids`.
using Bias = std::function<bool(const Ids& ids, std::int32_t draft, std::int32_t chosen)>;

struct Counts {
  std::map<Pair, double> of_draft;   // the first draft and the first token
  std::map<Pair, double> of_output;  // the first two tokens
  std::int64_t num_accepted = 0;
};

double proposal(std::int32_t draft) { return (draft + 1) / (kVocab * (kVocab + 1) / 2.0); }

Counts draw(Target& target, const Bias& bias) {
  std::mt19937 rng(5);
  std::vector<double> weights;
  for (std::int32_t i = 0; i < kVocab; ++i) weights.push_back(proposal(i));
  std::discrete_distribution<std::int32_t> propose(weights.begin(), weights.end());
  Counts counts;
  for (int i = 0; i < kNumDraws; ++i) {
    Ids ids = kPrompt;
    const Ids drafts = {propose(rng), propose(rng)};
    while (ids.size() < kPrompt.size() + 2) {
      const std::size_t num_known = ids.size() - kPrompt.size();
      DraftVerifier verifier(std::span<const std::int32_t>(drafts).subspan(num_known));
      for (bool goes_on = true; goes_on;) {
        std::int32_t token = target.sample(ids, static_cast<std::uint64_t>(i));
        const auto row = static_cast<std::size_t>(verifier.row()) + num_known;
        if (row < drafts.size() && bias && bias(ids, drafts[row], token)) token = drafts[row];
        ids.push_back(token);
        goes_on = verifier.accept(token) && ids.size() < kPrompt.size() + 2;
      }
      counts.num_accepted += verifier.row();
    }
    ++counts.of_draft[{drafts[0], ids[kPrompt.size()]}];
    ++counts.of_output[{ids[kPrompt.size()], ids.back()}];
  }
  return counts;
}

struct ChiSquare {
  double value = 0;
  double critical = 0;
};

// Cells with fewer than five expected draws are counted as one. The critical value has a
// probability of 1e-6 (Wilson and Hilferty, PNAS 1931: the cube root is about normal).
ChiSquare chi_square(const std::map<Pair, double>& expected, const std::map<Pair, double>& counts) {
  constexpr double kNormalQuantile = 4.7534;  // quantile of 1 - 1e-6
  ChiSquare result;
  double rare_expected = 0;
  double rare_count = 0;
  int num_cells = 0;
  double num_counted = 0;
  for (const auto& [cell, probability] : expected) {
    const auto found = counts.find(cell);
    const double count = found == counts.end() ? 0 : found->second;
    const double mean = probability * kNumDraws;
    num_counted += count;
    if (mean < 5) {
      rare_expected += mean;
      rare_count += count;
      continue;
    }
    result.value += (count - mean) * (count - mean) / mean;
    ++num_cells;
  }
  CHECK(num_counted == kNumDraws);  // no token without probability
  if (rare_expected >= 5) {
    result.value += (rare_count - rare_expected) * (rare_count - rare_expected) / rare_expected;
    ++num_cells;
  }
  REQUIRE(num_cells > 10);
  const double variance = 2.0 / (9.0 * (num_cells - 1));
  result.critical =
      (num_cells - 1) * std::pow(1 - variance + kNormalQuantile * std::sqrt(variance), 3);
  return result;
}

struct Expected {
  std::map<Pair, double> of_draft;
  std::map<Pair, double> of_output;
};

Expected expect(Target& target) {
  Expected expected;
  for (const auto& [first, probability] : target.distribution(kPrompt)) {
    for (std::int32_t draft = 0; draft < kVocab; ++draft) {
      expected.of_draft[{draft, first}] = proposal(draft) * probability;
    }
    Ids ids = kPrompt;
    ids.push_back(first);
    for (const auto& [second, conditional] : target.distribution(ids)) {
      expected.of_output[{first, second}] = probability * conditional;
    }
  }
  return expected;
}

struct Case {
  const char* name;
  SamplingParams params;
};

const Case kCases[] = {
    {"temperature", {.temperature = 1.3, .top_k = 0}},
    {"top-k", {.temperature = 1, .top_k = 5}},
    {"top-p", {.temperature = 0.9, .top_k = 0, .top_p = 0.9}},
    {"penalties, with all of them",
     {.temperature = 1.1,
      .top_k = 9,
      .top_p = 0.95,
      .repetition_penalty = 1.4,
      .no_repeat_ngram_size = 2,
      .min_new_tokens = 1,
      .stop_ids = {1, 4}}},
};

TEST_SUITE("sampling/draft verifier") {
  TEST_CASE("drafts are accepted up to the first that differs, and the row after them counts") {
    const Ids drafts = {4, 7};
    DraftVerifier verifier(drafts);
    CHECK(verifier.row() == 0);
    CHECK(verifier.accept(4));
    CHECK(verifier.row() == 1);
    CHECK(verifier.accept(7));
    CHECK(verifier.row() == 2);
    CHECK_FALSE(verifier.accept(7));  // the last row has no draft
    CHECK(verifier.row() == 2);
    DraftVerifier refused(drafts);
    CHECK_FALSE(refused.accept(7));
    CHECK(refused.row() == 0);
    CHECK_FALSE(DraftVerifier(std::span<const std::int32_t>()).accept(4));
  }

  // With a draft d, a token is d with probability p(d) and otherwise has the rest of p: the cells
  // of (draft, token) have the probabilities q(d) p(x).
  TEST_CASE("twenty thousand draws with drafts of another distribution follow the target's") {
    for (const Case& c : kCases) {
      CAPTURE(std::string(c.name));
      Target target(c.params);
      const Expected expected = expect(target);
      const Counts counts = draw(target, nullptr);
      const ChiSquare of_draft = chi_square(expected.of_draft, counts.of_draft);
      const ChiSquare of_output = chi_square(expected.of_output, counts.of_output);
      CHECK(of_draft.value < of_draft.critical);
      CHECK(of_output.value < of_output.critical);
      CHECK(counts.num_accepted > kNumDraws / 20);
      CHECK(counts.num_accepted < kNumDraws / 2);
    }
  }

  TEST_CASE("the same test fails where a draft is accepted for being nearly as probable") {
    for (const Case& c : kCases) {
      CAPTURE(std::string(c.name));
      Target target(c.params);
      const Expected expected = expect(target);
      const auto is_near = [&](const Ids& ids, std::int32_t draft, std::int32_t chosen) {
        std::map<std::int32_t, double> p = target.distribution(ids);
        return p[draft] > 0.9 * p[chosen];
      };
      const Counts counts = draw(target, is_near);
      const ChiSquare of_output = chi_square(expected.of_output, counts.of_output);
      CHECK(of_output.value > of_output.critical);
    }
  }
}

}  // namespace
}  // namespace caption::sampling
