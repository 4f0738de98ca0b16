// Tests ties, dead ends and invalid logits in a beam search, and invariants of every step.
#include "sampling/beam_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/sampling/table_model.h"

namespace caption::sampling {
using testing::SearchOfLogits;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

using Ids = std::vector<std::int32_t>;

Ids to_ids(std::span<const std::int32_t> ids) { return {ids.begin(), ids.end()}; }

// Returns the sum of the log-probabilities of `ids` after the first `num_prompt`, in double.
double log_probability(const TableModel& model, std::span<const std::int32_t> ids,
                       std::size_t num_prompt) {
  std::vector<float> logits(static_cast<std::size_t>(model.vocab));
  double total = 0;
  for (std::size_t i = num_prompt; i < ids.size(); ++i) {
    model.compute(ids.first(i), logits);
    double sum = 0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x));
    total += static_cast<double>(logits[static_cast<std::size_t>(ids[i])]) - std::log(sum);
  }
  return total;
}

TEST_SUITE("sampling/beam_search") {
  TEST_CASE("at every step the beams differ and continue their parents; the score is the sum") {
    constexpr std::int64_t kVocab = 300;
    BeamScorer scorer(kVocab);
    std::vector<float> logits;
    const Ids prompt = {4, 250, 17};
    for (const std::int32_t num_beams : {2, 5, 64}) {
      for (unsigned seed = 0; seed < 4; ++seed) {
        CAPTURE(num_beams);
        CAPTURE(seed);
        const TableModel model = make_table_model(kVocab, seed, 1);
        const SamplingParams params{.max_new_tokens = 30,
                                    .stop_ids = {7, 8, 9},
                                    .num_beams = num_beams,
                                    .length_penalty = 0.5 + seed,
                                    .early_stopping = EarlyStopping::kNever};
        SearchOfLogits search(params, prompt);
        std::vector<Ids> beams(1, prompt);
        while (true) {
          const auto step = take_step(model, search, scorer, std::ssize(beams), logits);
          if (search.is_finished()) break;
          REQUIRE(std::ssize(step.parents) == num_beams);
          REQUIRE(std::ssize(step.tokens) == num_beams);
          std::vector<Ids> next;
          double previous = kInf;
          for (std::size_t i = 0; i < step.parents.size(); ++i) {
            next.push_back(beams.at(static_cast<std::size_t>(step.parents[i])));
            next.back().push_back(step.tokens[i]);
            CHECK(to_ids(search.running(static_cast<std::int64_t>(i))) == next.back());
            const double score = log_probability(model, next.back(), prompt.size());
            CHECK(score <= previous + 1e-3);  // best first; 30 float sums below 256 round by 2^-13
            previous = score;
          }
          CHECK(std::set(next.begin(), next.end()).size() == next.size());
          beams = std::move(next);
        }
        const BeamSearch::Best best = search.best();
        Ids whole = prompt;
        whole.insert(whole.end(), best.output_ids.begin(), best.output_ids.end());
        const auto n = static_cast<double>(best.output_ids.size());
        const double scale = std::pow(n, params.length_penalty);
        CHECK(std::abs(best.score - log_probability(model, whole, prompt.size()) / scale) <
              1e-3 / scale);
      }
    }
  }

  TEST_CASE("among equal scores the lower beam comes first, then the lower id") {
    BeamScorer scorer(10);
    SearchOfLogits search({.max_new_tokens = 3, .num_beams = 3}, Ids{1});
    std::vector<float> logits(10, 2.0F);
    auto step = search.advance(scorer, logits);
    CHECK(to_ids(step.parents) == Ids{0, 0, 0});
    CHECK(to_ids(step.tokens) == Ids{0, 1, 2});
    logits.assign(30, -1.0F);
    step = search.advance(scorer, logits);
    CHECK(to_ids(step.parents) == Ids{0, 0, 0});
    CHECK(to_ids(step.tokens) == Ids{0, 1, 2});
    CHECK(to_ids(search.running(2)) == Ids{1, 0, 2});
    logits.assign(30, 0.0F);
    step = search.advance(scorer, logits);
    CHECK(search.is_finished());
    CHECK(step.parents.empty());
    CHECK(to_ids(search.best().output_ids) == Ids{0, 0, 0});
    CHECK_FALSE(search.best().is_stopped);
    CHECK(search.best().score == doctest::Approx(std::log(0.1)));
  }

  TEST_CASE("only the first num_beams candidates may finish") {
    // The stop id 7 ranks third: a candidate better than all later ones, but not among the first
    // two.
    BeamScorer scorer(8);
    SearchOfLogits search(
        {.max_new_tokens = 2, .stop_ids = {7}, .num_beams = 2, .length_penalty = 0}, Ids{0});
    std::vector<float> logits = {9, 8.5, 0, 0, 0, 0, 0, 8};
    const auto step = search.advance(scorer, logits);
    CHECK(to_ids(step.tokens) == Ids{0, 1});
    logits.assign(16, 0.0F);
    search.advance(scorer, logits);
    REQUIRE(search.is_finished());
    CHECK(to_ids(search.best().output_ids) == Ids{0, 0});

    // Here the stop id ranks second and is kept.
    SearchOfLogits other(
        {.max_new_tokens = 2, .stop_ids = {7}, .num_beams = 2, .length_penalty = 0}, Ids{0});
    logits = {9, 8, 0, 0, 0, 0, 0, 8.5};
    other.advance(scorer, logits);
    logits.assign(16, 0.0F);
    other.advance(scorer, logits);
    REQUIRE(other.is_finished());
    CHECK(to_ids(other.best().output_ids) == Ids{7});
    CHECK(other.best().is_stopped);
  }

  TEST_CASE("beams without a continuation die; the others go on and finish") {
    BeamScorer scorer(4);
    SearchOfLogits search({.max_new_tokens = 3, .num_beams = 2}, Ids{3});
    std::vector<float> logits = {1, -kInf, -kInf, -kInf};
    auto step = search.advance(scorer, logits);
    CHECK(to_ids(step.parents) == Ids{0, 0});
    CHECK(to_ids(step.tokens) == Ids{0, 0});
    // The second beam is dead, so its row is ignored.
    logits = {-kInf, 0, -2, -kInf, 50, 50, 50, 50};
    step = search.advance(scorer, logits);
    CHECK(to_ids(step.parents) == Ids{0, 0});
    CHECK(to_ids(step.tokens) == Ids{1, 2});
    logits = {0, 0, 0, 9, 0, 0, 0, 0};
    search.advance(scorer, logits);
    REQUIRE(search.is_finished());
    CHECK(to_ids(search.best().output_ids) == Ids{0, 1, 3});
  }

  TEST_CASE("a search that has finished beams ends with them when nothing can follow") {
    BeamScorer scorer(4);
    SearchOfLogits search({.max_new_tokens = 5, .stop_ids = {3}, .num_beams = 2}, Ids{0});
    std::vector<float> logits = {-kInf, -kInf, -kInf, 1};
    search.advance(scorer, logits);
    REQUIRE(search.is_finished());
    CHECK(to_ids(search.best().output_ids) == Ids{3});
    CHECK(search.best().score == 0);
  }

  TEST_CASE("a strongly negative length_penalty cannot push scores below the unfinished") {
    // -600 * 99^4 is far below -1e9, the reference's mark for excluded entries.
    BeamScorer scorer(4);
    std::vector<float> logits;
    SearchOfLogits search({.max_new_tokens = 99, .num_beams = 2, .length_penalty = -4}, Ids{1});
    std::int64_t num_rows = 1;
    for (; !search.is_finished(); num_rows = 2) {
      logits.assign(static_cast<std::size_t>(4 * num_rows), 0.0F);
      search.advance(scorer, logits);
    }
    CHECK(search.best().output_ids.size() == 99);
    CHECK(search.best().score < -1e9);
  }

  TEST_CASE("a repetition penalty lowers every log-probability of the beam's own history") {
    BeamScorer scorer(4);
    SearchOfLogits search({.repetition_penalty = 2, .max_new_tokens = 4, .num_beams = 2}, Ids{0});
    std::vector<float> logits = {3, 3, 3, 0};
    auto step = search.advance(scorer, logits);
    CHECK(to_ids(step.tokens) == Ids{1, 2});  // 0 is in the prompt, so it is excluded
    logits = {3, 3, 3, 0, 3, 3, 3, 0};
    step = search.advance(scorer, logits);
    CHECK(to_ids(step.parents) == Ids{0, 1});
    CHECK(to_ids(step.tokens) == Ids{2, 1});  // each beam repeats neither 0 nor its previous token
  }

  TEST_CASE("broken logits, no token left and misuse are errors that say so") {
    BeamScorer scorer(4);
    const SamplingParams params{.max_new_tokens = 3, .num_beams = 2};
    std::vector<float> logits = {1, kNaN, 2, 3};
    CHECK_THROWS_WITH_AS(SearchOfLogits(params, Ids{0}).advance(scorer, logits),
                         doctest::Contains("logit 1 of 4 is NaN"), Error);
    logits = {1, 2, 3, kInf};
    CHECK_THROWS_WITH_AS(SearchOfLogits(params, Ids{0}).advance(scorer, logits),
                         doctest::Contains("logit 3 of 4 is +inf"), Error);
    logits.assign(4, -kInf);
    CHECK_THROWS_WITH_AS(SearchOfLogits(params, Ids{0}).advance(scorer, logits),
                         doctest::Contains("every token"), Error);
    logits.assign(8, 0.0F);
    SearchOfLogits search(params, Ids{0});
    CHECK_THROWS_AS(search.advance(scorer, logits), Error);  // the first call takes one row
    CHECK_THROWS_AS(static_cast<void>(search.best()), Error);
    CHECK_THROWS_AS(static_cast<void>(search.running(2)), Error);
    CHECK_THROWS_AS(BeamSearch({.num_beams = 1}, Ids{0}), Error);
  }
}

}  // namespace
}  // namespace caption::sampling
