// Random schedules: budgets are never passed, pages are conserved, tokens are computed in order and
// once (but for preemption), and every sequence ends.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "scheduler/scheduler.h"

namespace caption::scheduler {
namespace {

// What an engine knows of a sequence, kept apart from the scheduler's own book.
struct Expected {
  std::int64_t num_prompt = 0;
  std::int64_t num_output = 0;
  std::int64_t num_wanted = 0;  // ends after so many
  std::int64_t num_computed = 0;
};

class Simulation {
 public:
  Simulation(const SchedulerOptions& options, std::int64_t num_pages, unsigned seed)
      : options_(options), pool_(num_pages), scheduler_(options, pool_), rng_(seed) {}

  void submit() {
    const std::int64_t most = pool_.num_pages() * kv::kPageTokens;
    const std::int64_t num_prompt = 1 + uniform(std::min<std::int64_t>(most - 1, 60));
    const std::int64_t max_new = 1 + uniform(std::min<std::int64_t>(most - num_prompt, 160));
    const SequenceId id{next_id_++};
    scheduler_.submit({id, num_prompt, max_new, static_cast<std::int32_t>(uniform(4))});
    sequences_[id] = {num_prompt, 0, 1 + uniform(max_new), 0};
  }

  void cancel() {
    if (sequences_.empty()) return;
    const auto chosen = std::next(sequences_.begin(), uniform(std::ssize(sequences_)));
    scheduler_.finish(chosen->first);
    sequences_.erase(chosen);
  }

  void step(bool fails) {
    const StepPlan& plan = scheduler_.plan();
    check_plan(plan);
    if (fails) {
      for (const SequenceId id : plan.preempted) sequences_.at(id).num_computed = 0;
      return;
    }
    scheduler_.commit();
    for (const PlannedSequence& planned : plan.sequences) {
      Expected& sequence = sequences_.at(planned.id);
      sequence.num_computed += planned.num_tokens;
      if (!planned.is_last_known) continue;
      if (++sequence.num_output == sequence.num_wanted) {
        scheduler_.finish(planned.id);
        sequences_.erase(planned.id);
      } else {
        scheduler_.append_token(planned.id);
      }
    }
  }

  void check() const { scheduler_.check_invariants(); }
  bool idle() const { return sequences_.empty(); }
  std::int64_t uniform(std::int64_t bound) {
    return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(bound));
  }
  std::int64_t num_free_pages() const { return pool_.num_free(); }
  std::int64_t num_preemptions() const { return num_preemptions_; }

 private:
  static void expect(bool condition, const char* what) {
    if (!condition) throw std::runtime_error(what);  // far cheaper than a REQUIRE per step
  }

  void check_plan(const StepPlan& plan) {
    num_preemptions_ += std::ssize(plan.preempted);
    for (const SequenceId id : plan.preempted) sequences_.at(id).num_computed = 0;
    std::int64_t num_tokens = 0;
    for (const PlannedSequence& planned : plan.sequences) {
      const Expected& sequence = sequences_.at(planned.id);
      const std::int64_t num_known = sequence.num_prompt + sequence.num_output;
      const std::int64_t end = planned.first_token + planned.num_tokens;
      expect(planned.num_tokens >= 1, "nothing to compute");
      expect(planned.first_token == sequence.num_computed, "tokens skipped or computed twice");
      expect(end <= num_known, "unknown tokens planned");
      expect(planned.is_last_known == (end == num_known), "logits wanted of the wrong step");
      expect(scheduler_.pages_of(planned.id).num_tokens() == end, "no page for a planned token");
      expect(options_.prefill == PrefillMode::kChunked || end == num_known, "a prompt was split");
      num_tokens += planned.num_tokens;
    }
    expect(num_tokens == plan.num_tokens, "the sum of the tokens is off");
    expect(std::ssize(plan.sequences) <= options_.max_num_seqs, "too many sequences");
    expect(num_tokens <= options_.max_num_batched_tokens ||
               (options_.prefill == PrefillMode::kWhole && plan.sequences.size() == 1),
           "too many tokens");
    expect(plan.preempted.empty() || options_.mode == Mode::kContinuous, "a static preemption");
    expect(sequences_.empty() || !plan.sequences.empty(), "no progress");
  }

  const SchedulerOptions options_;
  kv::PagePool pool_;
  Scheduler scheduler_;
  std::mt19937_64 rng_;
  std::map<SequenceId, Expected> sequences_;
  std::int64_t next_id_ = 0;
  std::int64_t num_preemptions_ = 0;
};

SchedulerOptions random_options(std::mt19937_64& rng) {
  SchedulerOptions options;
  options.mode = rng() % 4 == 0 ? Mode::kStatic : Mode::kContinuous;
  options.prefill = rng() % 2 == 0 ? PrefillMode::kChunked : PrefillMode::kWhole;
  options.max_num_seqs = 1 + static_cast<std::int64_t>(rng() % 12);
  options.max_num_batched_tokens = 1 + static_cast<std::int64_t>(rng() % 70);
  options.ageing_steps = 1 + static_cast<std::int64_t>(rng() % 100);
  return options;
}

TEST_SUITE("scheduler/properties") {
  TEST_CASE("a million random operations keep every invariant, and then every sequence ends") {
    std::mt19937_64 rng(4);
    std::int64_t num_operations = 0;
    std::int64_t num_preemptions = 0;
    for (unsigned seed = 0; seed < 500; ++seed) {
      CAPTURE(seed);
      const auto num_pages = static_cast<std::int64_t>(2 + rng() % 30);
      Simulation simulation(random_options(rng), num_pages, seed);
      for (int i = 0; i < 2000; ++i) {
        const std::int64_t kind = simulation.uniform(16);
        if (kind == 0) {
          simulation.submit();
        } else if (kind == 1 && simulation.uniform(4) == 0) {
          simulation.cancel();
        } else {
          simulation.step(/*fails=*/kind == 2);
        }
        simulation.check();
        ++num_operations;
      }
      int num_steps = 0;
      while (!simulation.idle()) {
        REQUIRE(++num_steps < 100'000);
        simulation.step(/*fails=*/false);
      }
      CHECK(simulation.num_free_pages() == num_pages);
      num_preemptions += simulation.num_preemptions();
    }
    CHECK(num_operations == 1'000'000);
    CHECK(num_preemptions > 1'000);  // the schedules did get tight
  }

  TEST_CASE("ten thousand queued sequences finish") {
    Simulation simulation({.max_num_seqs = 16, .max_num_batched_tokens = 64}, 100, 1);
    for (int i = 0; i < 10'000; ++i) simulation.submit();
    std::int64_t num_steps = 0;
    while (!simulation.idle()) {
      REQUIRE(++num_steps < 1'000'000);
      simulation.step(/*fails=*/false);
    }
    CHECK(simulation.num_free_pages() == 100);
  }
}

}  // namespace
}  // namespace caption::scheduler
