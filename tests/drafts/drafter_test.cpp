#include "drafts/drafter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/error.h"

using namespace caption::drafts;
using caption::Error;
using caption::ErrorCode;

namespace {

using Ids = std::vector<std::int32_t>;

Ids propose(Drafter& drafter, const Ids& tokens, std::int64_t num_prompt, std::int64_t most = 8) {
  Ids drafts;
  const DraftQuery query{
      .sequence = 1, .tokens = tokens, .num_prompt = num_prompt, .most = most, .drafts = &drafts};
  drafter.propose({&query, 1}, 0);
  return drafts;
}

// Returns the drafts for sequences 0, 1, ...; the first token of each is its prompt.
std::vector<Ids> propose_to_all(Drafter& drafter, const std::vector<Ids>& tokens) {
  std::vector<Ids> drafts(tokens.size());
  std::vector<DraftQuery> queries;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    queries.push_back({.sequence = static_cast<std::int64_t>(i),
                       .tokens = tokens[i],
                       .num_prompt = 1,
                       .most = 8,
                       .drafts = &drafts[i]});
  }
  drafter.propose(queries, 0);
  return drafts;
}

std::shared_ptr<TokenArchive> archive_of(const std::vector<Ids>& texts) {
  auto archive = std::make_shared<TokenArchive>(1 << 20);
  for (const Ids& text : texts) archive->add(text);
  return archive;
}

struct Simulated {
  double us = 0;
  std::int64_t num_tokens = 0;
  double us_per_token() const { return us / static_cast<double>(num_tokens); }
};

// Texts of 40 tokens, of which each next one is, with probability `agreement`, the one after it in
// the archive's text. A step of n tokens takes `step_us(n)`.
Simulated simulate(Drafter& drafter, std::size_t batch, double agreement,
                   const std::function<double(std::int64_t)>& step_us, int num_steps = 4000) {
  std::mt19937 rng(2);
  std::uniform_real_distribution<double> uniform(0, 1);
  struct Running {
    std::int64_t id = 0;
    Ids tokens;
  };
  std::vector<Running> running(batch);
  std::int64_t num_begun = 0;
  for (Running& r : running) r = {++num_begun, {0}};
  Simulated total;
  for (int step = 0; step < num_steps; ++step) {
    std::vector<Ids> drafts(batch);
    std::vector<DraftQuery> queries(batch);
    for (std::size_t i = 0; i < batch; ++i) {
      queries[i] = {.sequence = running[i].id,
                    .tokens = running[i].tokens,
                    .num_prompt = 1,
                    .most = 8,
                    .drafts = &drafts[i]};
    }
    drafter.propose(queries, 0);
    std::int64_t size = 0;
    for (std::size_t i = 0; i < batch; ++i) {
      size += 1 + std::ssize(drafts[i]);
      std::int64_t accepted = 0;
      bool goes_on = true;
      while (goes_on) {
        const std::int32_t follows = running[i].tokens.back() % 1000 + 1;
        const std::int32_t token =
            uniform(rng) < agreement ? follows : 1 + static_cast<std::int32_t>(rng() % 1000);
        running[i].tokens.push_back(token);
        ++total.num_tokens;
        goes_on = accepted < std::ssize(drafts[i]) &&
                  drafts[i][static_cast<std::size_t>(accepted)] == token;
        if (goes_on) ++accepted;
      }
      if (!drafts[i].empty()) {
        drafter.observe(running[i].id, std::ssize(drafts[i]), accepted, true);
      }
      if (running[i].tokens.size() > 40) {
        drafter.end(running[i].id, {});
        running[i] = {++num_begun, {0}};
      }
    }
    const double us = step_us(size);
    total.us += us;
    drafter.observe_step({.num_tokens = size, .us = static_cast<std::int64_t>(us)});
  }
  return total;
}

std::shared_ptr<TokenArchive> archive_of_one_text() {
  Ids text(1000);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::int32_t>(i) + 1;
  return archive_of({text, text});
}

}  // namespace

TEST_CASE("a drafter prefers what many texts say after a shorter context to what one text says") {
  std::vector<Ids> texts = {{1, 2, 3, 4, 50, 51}};
  for (std::int32_t i = 0; i < 20; ++i) texts.push_back({100 + i, 3, 4, 60, 61});
  Drafter drafter({.method = Method::kArchive, .is_adaptive = false}, archive_of(texts));
  CHECK(propose(drafter, {9, 1, 2, 3, 4}, 1) == Ids{60, 61});
  // Fewer texts than TokenArchive::kFrequent: the longest context decides.
  texts.resize(TokenArchive::kFrequent - 1);
  Drafter other({.method = Method::kArchive, .is_adaptive = false}, archive_of(texts));
  CHECK(propose(other, {9, 1, 2, 3, 4}, 1) == Ids{50, 51});
}

TEST_CASE("without an archive's match, drafts repeat the sequence") {
  Drafter drafter({.method = Method::kArchive, .is_adaptive = false}, archive_of({{50, 51}}));
  CHECK(propose(drafter, {1, 2, 3, 4, 1, 2}, 4) == Ids{3, 4, 1, 2});
  CHECK(propose(drafter, {1, 2, 3, 4, 50}, 4) == Ids{51});
  CHECK(propose(drafter, {1, 2, 3, 4}, 4) == Ids{50, 51});  // how texts begin
  CHECK(propose(drafter, {1, 2, 3, 4, 60}, 4).empty());
  Drafter ngrams({.method = Method::kNgram, .is_adaptive = false}, nullptr);
  CHECK(propose(ngrams, {1, 2, 3, 4, 1, 2}, 4, 2) == Ids{3, 4});
  CHECK(propose(ngrams, {1, 2, 3, 4, 50}, 4).empty());
}

TEST_CASE("finished outputs are guessed from, cancelled ones are not") {
  auto archive = std::make_shared<TokenArchive>(1 << 20);
  Drafter drafter({.method = Method::kArchive, .max_drafts = 2, .is_adaptive = false}, archive);
  CHECK(propose(drafter, {1, 8}, 1).empty());
  drafter.end(1, Ids{8, 9, 10, 11});
  drafter.end(2, {});
  CHECK(archive->num_tokens() == 4);
  CHECK(propose(drafter, {1, 8}, 1) == Ids{9, 10});
}

TEST_CASE("drafts are counted by sequence and source, and their time by the costs of steps") {
  Drafter drafter({.method = Method::kArchive, .max_drafts = 3, .is_adaptive = false},
                  archive_of({{7, 8, 9, 10}}));
  drafter.observe_step({.num_tokens = 1, .us = 1000});  // a prompt's step: nothing was asked for
  CHECK(drafter.steps().all == 0);
  CHECK(propose(drafter, {1, 7}, 1) == Ids{8, 9, 10});
  drafter.observe(1, 3, 2, true);
  drafter.observe_step({.num_tokens = 4, .us = 1400});
  // Two tokens of 1000 us each, for a step that took 400 us longer.
  CHECK(drafter.steps().all == 1);
  CHECK(drafter.steps().with_drafts == 1);
  CHECK(drafter.steps().saved_us > 0);
  CHECK(drafter.steps().saved_us <= 2 * 1000);
  CHECK(propose(drafter, {1, 2, 3, 2}, 3, 1).empty());
  drafter.observe_step({.num_tokens = 1, .us = 1000});
  CHECK(drafter.steps().all == 2);
  CHECK(drafter.steps().with_drafts == 1);
  CHECK(propose(drafter, {1, 7}, 1, 2) == Ids{8, 9});
  drafter.observe(1, 2, 2, false);  // the second one ended the output
  drafter.observe_step({.num_tokens = 3, .us = 1200});
  drafter.end(1, {});
  const DraftCounts counts = drafter.take_counts(1);
  const auto archive = static_cast<std::size_t>(GuessSource::kArchive);
  CHECK(counts.computed[archive] == 5);
  CHECK(counts.accepted[archive] == 4);
  CHECK(counts.further_tokens == 3);
  CHECK(drafter.counts().accepted == counts.accepted);
  CHECK(drafter.take_counts(1).further_tokens == 0);
  CHECK(drafter.take_counts(2).further_tokens == 0);
  // Wrong drafts cost time.
  const double saved_us = drafter.steps().saved_us;
  CHECK(propose(drafter, {1, 7}, 1) == Ids{8, 9, 10});
  drafter.observe(1, 3, 0, true);
  drafter.observe_step({.num_tokens = 4, .us = 1400});
  CHECK(drafter.steps().saved_us < saved_us);
}

TEST_CASE("what the nearest things' texts say is guessed first, if it has been right as often") {
  auto archive = std::make_shared<TokenArchive>(1 << 20);
  auto nearest = std::make_shared<NearestTexts>(1 << 20);
  Drafter drafter({.method = Method::kArchive, .max_drafts = 2, .is_adaptive = false}, archive,
                  nearest);
  const Sketch sea = sketch_of(std::vector<float>{1, 0, 0});
  const Sketch river = sketch_of(std::vector<float>{1, 0.1F, 0});
  const Sketch city = sketch_of(std::vector<float>{0, 0, 1});
  std::int64_t id = 100;
  const auto know = [&](const Sketch& look, std::uint64_t topic, const Ids& text) {
    drafter.begin(++id, topic, look);
    drafter.end(id, text);
  };
  for (int i = 0; i < 5; ++i) know(city, 1, {8, 50, 51});
  know(sea, 1, {8, 9, 10});
  know(sea, 2, {8, 70, 71});
  drafter.begin(1, 1, river);
  CHECK(propose(drafter, {1, 8}, 1) == Ids{9, 10});
  drafter.observe(1, 2, 2, true);
  CHECK(drafter.counts().accepted[static_cast<std::size_t>(GuessSource::kNearest)] == 2);
  drafter.end(1, {});
  // A sequence of which nothing is known gets the archive's.
  CHECK(propose(drafter, {1, 8}, 1) == Ids{50, 51});
  drafter.end(1, {});
  // Where the nearest are wrong, the archive's share of texts speaks for the other ones.
  for (int i = 0; i < 200; ++i) {
    drafter.begin(1, 1, river);
    if (propose(drafter, {1, 8}, 1) != Ids{9, 10}) break;
    drafter.observe(1, 2, 0, true);
    drafter.end(1, {});
  }
  CHECK(propose(drafter, {1, 8}, 1) == Ids{50, 51});
}

TEST_CASE("a draft model that fails is not asked again, unless the device or the program failed") {
  class Failing final : public DraftModel {
   public:
    explicit Failing(ErrorCode code) : code_(code) {}
    double relative_cost() const override { return 0.1; }
    std::int64_t num_missing(std::int64_t /*sequence*/,
                             std::span<const std::int32_t> /*output*/) const override {
      return 1;
    }
    StepLoad guess(std::span<const ModelQuery> queries, std::span<Guess> guesses) override {
      if (++num_passes > 3) throw Error(code_, "a pass failed");
      for (Guess& guess : guesses) guess = {.token = 9, .match_length = 1, .count = 1, .total = 1};
      return {.num_tokens = std::ssize(queries), .us = 1};
    }
    void end(std::int64_t /*sequence*/) override {}

    int num_passes = 0;

   private:
    ErrorCode code_;
  };
  const DrafterOptions options{.method = Method::kModel, .max_drafts = 8, .is_adaptive = false};
  Failing failing(ErrorCode::kOutOfMemory);
  Drafter drafter(options, nullptr, nullptr, &failing);
  // What it has guessed before is kept.
  CHECK(propose(drafter, {1, 2}, 1) == Ids{9, 9, 9});
  CHECK(propose(drafter, {1, 2}, 1).empty());
  CHECK(failing.num_passes == 4);
  for (const ErrorCode code : {ErrorCode::kUnavailable, ErrorCode::kInternal}) {
    Failing ending(code);
    Drafter ended(options, nullptr, nullptr, &ending);
    CHECK_THROWS_AS(propose(ended, {1, 2}, 1), Error);
  }
}

TEST_CASE("a draft model whose passes cost as much as steps rests, until they cost little") {
  class Right final : public DraftModel {
   public:
    double relative_cost() const override { return 0.5; }
    std::int64_t num_missing(std::int64_t /*sequence*/,
                             std::span<const std::int32_t> /*output*/) const override {
      return 1;
    }
    StepLoad guess(std::span<const ModelQuery> queries, std::span<Guess> guesses) override {
      for (Guess& guess : guesses) {
        guess = {.token = 9, .match_length = kModelMatch, .count = 60, .total = kModelTotal};
      }
      spent_us += pass_us;
      return {.num_tokens = std::ssize(queries), .us = pass_us};
    }
    void end(std::int64_t /*sequence*/) override {}

    std::int64_t pass_us = 1000;
    std::int64_t spent_us = 0;
  };
  Right right;
  CHECK(Drafter({.method = Method::kArchive}, nullptr).is_model_resting());
  Drafter drafter({.method = Method::kModel}, nullptr, nullptr, &right);
  CHECK_FALSE(drafter.is_model_resting());
  // The text consists of tokens 9 alone, and its prompt of one.
  Ids tokens = {9};
  const auto step = [&] {
    const std::int64_t num_drafts = std::ssize(propose(drafter, tokens, 1));
    if (num_drafts > 0) drafter.observe(1, num_drafts, num_drafts, true);
    tokens.resize(tokens.size() + 1 + static_cast<std::size_t>(num_drafts), 9);
    const std::int64_t passes_us = std::exchange(right.spent_us, 0);
    drafter.observe_step({.num_tokens = 1 + num_drafts, .us = 1000 + 10 * num_drafts + passes_us});
  };
  for (int i = 0; i < 1000; ++i) step();
  CHECK(drafter.is_model_resting());
  right.pass_us = 10;
  for (int i = 0; i < 20000 && drafter.is_model_resting(); ++i) step();
  CHECK_FALSE(drafter.is_model_resting());
}

TEST_CASE("nothing is drafted before a step was measured, nor where further tokens cost as much") {
  Drafter drafter({.method = Method::kArchive}, archive_of_one_text());
  CHECK(propose(drafter, {0, 1, 2, 3}, 1).empty());
  for (int i = 0; i < 3; ++i) {  // the first steps are measured without
    CHECK(propose(drafter, {0, 1, 2, 3}, 1).empty());
    drafter.observe_step({.num_tokens = 1, .us = 1000});
  }
  CHECK(propose(drafter, {0, 1, 2, 3}, 1).size() == 2);  // a larger step, tried with care
  for (int i = 0; i < 50; ++i) drafter.observe_step({.num_tokens = 8, .us = 8000});
  CHECK(propose(drafter, {0, 1, 2, 3}, 1).size() == 2);  // steps of prompts say nothing of drafts
  int num_drafted = 0;
  for (int i = 0; i < 50; ++i) {
    const auto num_drafts = std::ssize(propose(drafter, {0, 1, 2, 3}, 1));
    num_drafted += num_drafts > 0 ? 1 : 0;
    if (num_drafts > 0) drafter.observe(1, num_drafts, num_drafts, true);
    drafter.observe_step({.num_tokens = 1 + num_drafts, .us = 1000 * (1 + num_drafts)});
  }
  CHECK(num_drafted <= 8);  // a few to learn the cost
}

TEST_CASE("drafts rest where steps that have them lose time against what was expected") {
  // Two of 16 sequences have guesses, of which 6 in 10 are right. Times of similar sizes are
  // learned as one (StepCosts), so that a jump after 16 tokens is not seen there.
  for (const double jump_us : {0.0, 200.0, 500.0, 1000.0}) {
    CAPTURE(jump_us);
    Drafter drafter({.method = Method::kArchive, .max_drafts = 1}, archive_of_one_text());
    std::mt19937 rng(6);
    double us = 0;
    double num_tokens = 0;
    constexpr int kNumSteps = 20'000;
    for (int step = 0; step < kNumSteps; ++step) {
      std::vector<Ids> tokens(16, Ids{0, 5000});
      tokens[3] = tokens[8] = {0, 1, 2, 3};
      const std::vector<Ids> drafts = propose_to_all(drafter, tokens);
      std::int64_t size = 16;
      for (std::size_t i = 0; i < 16; ++i) {
        if (drafts[i].empty()) continue;
        const std::int64_t num_right = rng() % 10 < 6 ? 1 : 0;
        drafter.observe(static_cast<std::int64_t>(i), 1, num_right, true);
        num_tokens += static_cast<double>(num_right);
        ++size;
      }
      num_tokens += 16;
      const double step_us = size == 16 ? 1000 : 1000 + jump_us;
      us += step_us;
      drafter.observe_step({.num_tokens = size, .us = static_cast<std::int64_t>(step_us)});
    }
    const double ratio = num_tokens / us * 1000 / 16;
    CHECK(ratio >= 0.99);
    if (jump_us == 0) CHECK(ratio > 1.06);
  }
}

TEST_CASE("adaptive drafts are never much slower than none, and near the best fixed number") {
  for (const double agreement : {0.0, 0.3, 0.6, 0.9}) {
    for (const double us_per_row : {0.0, 30.0, 300.0, 1000.0}) {
      for (const std::size_t batch : {1U, 4U, 16U}) {
        const auto step_us = [&](std::int64_t n) {
          return 1000 + us_per_row * static_cast<double>(n);
        };
        CAPTURE(agreement);
        CAPTURE(us_per_row);
        CAPTURE(batch);
        const double none = step_us(static_cast<std::int64_t>(batch)) / static_cast<double>(batch);
        double best = none;
        for (std::int32_t depth = 1; depth <= 8; ++depth) {
          Drafter fixed({.method = Method::kArchive, .max_drafts = depth, .is_adaptive = false},
                        archive_of_one_text());
          best = std::min(best, simulate(fixed, batch, agreement, step_us, 500).us_per_token());
        }
        Drafter drafter({.method = Method::kArchive}, archive_of_one_text());
        const double adaptive = simulate(drafter, batch, agreement, step_us).us_per_token();
        CHECK(adaptive <= 1.02 * none);
        CHECK(adaptive <= 1.08 * best);
      }
    }
  }
}

TEST_CASE("searches rest where they take more time than the drafts that they find save") {
  for (const double search_us : {0.1, 50.0}) {
    CAPTURE(search_us);
    Drafter drafter({.method = Method::kArchive, .max_drafts = 1}, archive_of_one_text());
    constexpr int kNumSteps = 20'000;
    constexpr int kEvery = 40;  // steps, one of which has a sequence with a guess, a right one
    int num_drafted = 0;
    for (int step = 0; step < kNumSteps; ++step) {
      std::vector<Ids> tokens(16, Ids{0, 5000});
      if (step % kEvery == 0) tokens[3] = {0, 1, 2, 3};
      const std::vector<Ids> drafts = propose_to_all(drafter, tokens);
      const std::int64_t num_drafts = std::ssize(drafts[3]);
      if (num_drafts > 0) drafter.observe(3, num_drafts, num_drafts, true);
      num_drafted += num_drafts > 0 ? 1 : 0;
      drafter.observe_step({.num_tokens = 16 + num_drafts, .us = 1000, .proposing_us = search_us});
    }
    constexpr int kNumWithGuess = kNumSteps / kEvery;
    if (search_us < 1) CHECK(num_drafted > kNumWithGuess / 10 * 9);
    // 50 us of each step are worth 2 us: two steps' time is lost in 40 steps, before each pause.
    if (search_us > 1) CHECK(num_drafted < kNumWithGuess / 10);
  }
}
