// Tests each rule in scheduler.h with a minimal schedule.
#include "scheduler/scheduler.h"

#include <doctest/doctest.h>

#include <vector>

#include "base/error.h"
#include "scheduler/step_limits.h"

namespace caption::scheduler {
namespace {

struct Row {
  int id;
  int num_tokens;
  friend bool operator==(const Row&, const Row&) = default;
};

// Plans, commits, and appends a token to every sequence that is due for one.
std::vector<Row> run_step(Scheduler& scheduler) {
  std::vector<Row> rows;
  const StepPlan plan = scheduler.plan();
  scheduler.commit();
  for (const PlannedSequence& planned : plan.sequences) {
    rows.push_back({static_cast<int>(planned.id), static_cast<int>(planned.num_tokens)});
    if (planned.is_last_known) scheduler.append_tokens(planned.id);
  }
  scheduler.check_invariants();
  return rows;
}

SequenceSpec spec(int id, std::int64_t num_prompt_tokens, std::int64_t max_new_tokens,
                  std::int32_t priority = 0) {
  return {.id = SequenceId{id},
          .num_prompt_tokens = num_prompt_tokens,
          .max_new_tokens = max_new_tokens,
          .priority = priority};
}

using Rows = std::vector<Row>;

TEST_SUITE("scheduler/scheduler") {
  TEST_CASE("chunks a prompt and lets decodes go first") {
    kv::PagePool pool(64);
    Scheduler scheduler({.max_num_seqs = 4, .max_num_batched_tokens = 10}, pool);
    scheduler.submit(spec(1, 4, 8));
    CHECK(run_step(scheduler) == Rows{{1, 4}});
    scheduler.submit(spec(2, 25, 8));
    CHECK(run_step(scheduler) == Rows{{1, 1}, {2, 9}});
    CHECK(run_step(scheduler) == Rows{{1, 1}, {2, 9}});
    CHECK(run_step(scheduler) == Rows{{1, 1}, {2, 7}});
    CHECK(run_step(scheduler) == Rows{{1, 1}, {2, 1}});
  }

  TEST_CASE("each sequence and each draft has a row of logits, as far as a step has tokens") {
    StepLimits limits{.max_num_seqs = 4, .max_num_batched_tokens = 100};
    CHECK(limits.most_drafts() == 0);
    CHECK(limits.most_logit_rows() == 4);
    limits.max_drafts = 5;
    limits.max_copied_tokens = 7;
    CHECK(limits.most_drafts() == 27);
    CHECK(limits.most_logit_rows() == 31);
    limits.max_num_batched_tokens = 30;
    CHECK(limits.most_logit_rows() == 30);
    limits.max_num_batched_tokens = 2;  // each sequence has its token still
    CHECK(limits.most_logit_rows() == 4);
  }

  TEST_CASE("pages before the window go back to the pool, and known ones stay findable") {
    kv::PagePool pool(6);
    // A token sees 20 tokens, its own included.
    Scheduler scheduler({.max_num_batched_tokens = 30, .window_tokens = 20}, pool);
    SequenceSpec first = spec(1, 60, 20);
    first.prompt_pages = {{1, 1}, {1, 2}, {1, 3}};
    first.prompt_part = {.content = {1, 9}, .num_tokens = 40};
    scheduler.submit(first);
    run_step(scheduler);  // tokens [0, 30); the next one, 30, sees tokens from 11 on
    CHECK(pool.num_used() == 2);
    run_step(scheduler);  // the prompt is computed; token 60 sees tokens from 41 on
    CHECK(scheduler.pages_of(SequenceId{1}).num_released() == 2);
    CHECK(pool.num_used() == 2);
    CHECK(pool.num_cached() == 2);
    for (int step = 0; step < 3; ++step) run_step(scheduler);
    CHECK(scheduler.pages_of(SequenceId{1}).num_released() == 2);
    run_step(scheduler);
    run_step(scheduler);
    run_step(scheduler);
    run_step(scheduler);  // 67 tokens computed: token 67 sees tokens from 48 on
    CHECK(scheduler.pages_of(SequenceId{1}).num_released() == 3);
    CHECK(pool.find({1, 9}) == pool.find({1, 3}));

    // Another prompt with the same beginning takes only the pages in its window.
    SequenceSpec second = spec(2, 50, 10);
    second.prompt_pages = first.prompt_pages;
    scheduler.submit(second);
    CHECK(run_step(scheduler) == Rows{{1, 1}, {2, 2}});
    CHECK(scheduler.cached_tokens_of(SequenceId{2}) == 48);
    CHECK(scheduler.pages_of(SequenceId{2}).num_released() == 1);
    scheduler.finish(SequenceId{1});
    scheduler.finish(SequenceId{2});
    CHECK(pool.num_used() == 0);
  }

  TEST_CASE("a page that ends a shared part is found after the window has left it") {
    kv::PagePool pool(8);
    Scheduler scheduler({.max_num_batched_tokens = 100, .window_tokens = 4}, pool);
    SequenceSpec first = spec(1, 19, 60);
    first.prompt_pages = {{1, 1}};
    first.prompt_part = {.content = {1, 9}, .num_tokens = 18};
    scheduler.submit(first);
    while (scheduler.pages_of(SequenceId{1}).num_released() < 2) run_step(scheduler);
    CHECK(pool.find({1, 9}).has_value());
    SequenceSpec second = spec(2, 30, 10);
    second.prompt_pages = first.prompt_pages;
    second.prompt_part = first.prompt_part;
    scheduler.submit(second);
    run_step(scheduler);
    CHECK(scheduler.cached_tokens_of(SequenceId{2}) == 18);
  }

  TEST_CASE("drafts are computed where tokens and pages are left, and wrong ones leave no trace") {
    kv::PagePool pool(3);
    Scheduler scheduler({.max_num_batched_tokens = 6}, pool);
    scheduler.submit(spec(1, 13, 30));
    run_step(scheduler), run_step(scheduler), run_step(scheduler);  // the prompt in chunks of 6
    REQUIRE(scheduler.can_draft(SequenceId{1}));
    scheduler.propose(SequenceId{1}, 9);  // 5 fit the budget
    StepPlan plan = scheduler.plan();
    REQUIRE(plan.sequences.size() == 1);
    CHECK(plan.sequences[0].num_tokens == 6);
    CHECK(plan.sequences[0].num_drafts == 5);
    CHECK(plan.sequences[0].num_logits() == 6);
    CHECK(plan.num_tokens == 6);
    scheduler.commit();
    CHECK_THROWS_AS(scheduler.append_tokens(SequenceId{1}, 7), Error);
    scheduler.append_tokens(SequenceId{1}, 3);  // two of them were right
    plan = scheduler.plan();                    // without an offer
    REQUIRE(plan.sequences.size() == 1);
    CHECK(plan.sequences[0].first_token == 16);
    CHECK(plan.sequences[0].num_tokens == 1);
    CHECK(plan.sequences[0].num_logits() == 1);
    CHECK(pool.num_used() == 2);  // 17 tokens
    scheduler.commit();
    scheduler.append_tokens(SequenceId{1});
    scheduler.check_invariants();
  }

  TEST_CASE("drafts displace no sequence: neither one that runs nor one that waits") {
    kv::PagePool pool(5);
    Scheduler scheduler({.max_num_batched_tokens = 64}, pool);
    scheduler.submit(spec(1, 15, 40));
    scheduler.submit(spec(2, 15, 40));
    run_step(scheduler), run_step(scheduler);  // 16 tokens each: a page, which is full
    for (const int id : {1, 2}) scheduler.propose(SequenceId{id}, 20);
    StepPlan plan = scheduler.plan();  // 21 more tokens would need two pages each; there are three
    CHECK(plan.preempted.empty());
    REQUIRE(plan.sequences.size() == 2);
    for (const PlannedSequence& planned : plan.sequences) CHECK(planned.num_drafts == 0);
    scheduler.commit();
    for (const int id : {1, 2}) scheduler.append_tokens(SequenceId{id});
    scheduler.finish(SequenceId{2});
    scheduler.submit(spec(3, 20, 5));
    scheduler.propose(SequenceId{1}, 36);  // they would take the pages of the waiting sequence
    plan = scheduler.plan();
    REQUIRE(plan.sequences.size() == 2);
    CHECK(plan.sequences[0].num_drafts == 0);
    CHECK(plan.sequences[1].id == SequenceId{3});
    scheduler.check_invariants();
  }

  TEST_CASE("drafts never displace a prompt, and end with the tokens asked for") {
    kv::PagePool pool(16);
    Scheduler scheduler({.max_num_batched_tokens = 8}, pool);
    scheduler.submit(spec(1, 4, 3));
    run_step(scheduler);
    scheduler.submit(spec(2, 30, 4));
    scheduler.propose(SequenceId{1}, 4);
    CHECK_FALSE(scheduler.can_draft(SequenceId{2}));
    scheduler.propose(SequenceId{2}, 1);  // the step does not end its prompt
    StepPlan plan = scheduler.plan();
    REQUIRE(plan.sequences.size() == 2);
    CHECK(plan.sequences[0].num_drafts == 0);
    CHECK(plan.sequences[1].num_tokens == 7);
    CHECK(plan.sequences[1].num_drafts == 0);
    scheduler.commit();
    CHECK_THROWS_AS(scheduler.propose(SequenceId{1}, 1), Error);  // its next token is not known
    scheduler.append_tokens(SequenceId{1});
    scheduler.finish(SequenceId{2});
    scheduler.propose(SequenceId{1}, 4);  // the sequence has 6 tokens of at most 6
    plan = scheduler.plan();
    CHECK(plan.sequences[0].num_drafts == 0);
    scheduler.check_invariants();
  }

  TEST_CASE("a step that ends a prompt takes drafts where tokens, pages and the limit are left") {
    struct Case {
      const char* name;
      SchedulerOptions options;
      std::int64_t num_pages;
      std::int64_t num_drafts;  // those taken of 40 that follow a prompt of 30 tokens
    };
    const Case cases[] = {
        {"plenty", {}, 8, 40},
        {"few tokens", {.max_num_batched_tokens = 42}, 8, 12},
        {"no tokens", {.max_num_batched_tokens = 30}, 8, 0},
        {"few drafts", {.max_drafts_per_step = 9}, 8, 9},
        {"few pages", {}, 5, 40},  // the sequence alone needs five
        {"whole prompts", {.prefill = PrefillMode::kWhole, .max_num_batched_tokens = 35}, 8, 5},
        {"a whole prompt above the budget",
         {.prefill = PrefillMode::kWhole, .max_num_batched_tokens = 20},
         8,
         0},
        {"static", {.mode = BatchMode::kStatic}, 8, 40},
    };
    for (const Case& c : cases) {
      CAPTURE(std::string(c.name));
      kv::PagePool pool(c.num_pages);
      Scheduler scheduler(c.options, pool);
      scheduler.submit(spec(1, 30, 50));
      REQUIRE(scheduler.may_end_prompt().size() == 1);
      CHECK_FALSE(scheduler.can_draft(SequenceId{1}));
      scheduler.propose(SequenceId{1}, 40);
      const StepPlan plan = scheduler.plan();
      REQUIRE(plan.sequences.size() == 1);
      CHECK(plan.sequences[0].num_drafts == c.num_drafts);
      CHECK(plan.sequences[0].num_tokens == 30 + c.num_drafts);
      CHECK(plan.sequences[0].num_logits() == 1 + c.num_drafts);
      scheduler.commit();
      scheduler.append_tokens(SequenceId{1}, 1 + c.num_drafts / 2);
      scheduler.plan();
      CHECK(pool.num_used() == kv::pages_for_tokens(31 + c.num_drafts / 2));
      scheduler.check_invariants();
    }
  }

  TEST_CASE("only what may end in the next step is asked for drafts after prompts") {
    kv::PagePool pool(64);
    Scheduler scheduler({.max_num_seqs = 3, .max_num_batched_tokens = 20}, pool);
    const auto ids = [&] {
      std::vector<std::int64_t> found;
      for (const SequenceId id : scheduler.may_end_prompt()) {
        found.push_back(static_cast<std::int64_t>(id));
      }
      return found;
    };
    SequenceSpec compressed = spec(2, 10, 8);
    compressed.prompt_end = PromptEnd::kOwnStep;
    SequenceSpec beams = spec(3, 10, 8);
    beams.num_branches = 2;
    for (const SequenceSpec& one :
         {spec(1, 30, 8), compressed, spec(4, 10, 8), beams, spec(5, 4, 8)}) {
      scheduler.submit(one);
    }
    CHECK(ids() == std::vector<std::int64_t>{1, 4});  // the others have no drafts or no place
    CHECK(run_step(scheduler) == Rows{{1, 20}});
    CHECK(ids() == std::vector<std::int64_t>{1, 4});  // ten tokens of 1 are left
    CHECK(run_step(scheduler) == Rows{{1, 10}, {2, 10}});
    CHECK(ids() == std::vector<std::int64_t>{4});
    CHECK(scheduler.can_draft(SequenceId{1}));
  }

  TEST_CASE("says where a chunk starts and when its logits are wanted") {
    kv::PagePool pool(64);
    Scheduler scheduler({.max_num_batched_tokens = 10}, pool);
    scheduler.submit(spec(1, 14, 8));
    const StepPlan first = scheduler.plan();
    scheduler.commit();
    CHECK(first.sequences[0].first_token == 0);
    CHECK_FALSE(first.sequences[0].is_last_known);
    const StepPlan second = scheduler.plan();
    scheduler.commit();
    CHECK(second.sequences[0].first_token == 10);
    CHECK(second.sequences[0].num_tokens == 4);
    CHECK(second.sequences[0].is_last_known);
    CHECK(scheduler.pages_of(SequenceId{1}).num_tokens() == 14);
  }

  TEST_CASE("whole prompts that do not fit beside the decodes take the step before them") {
    kv::PagePool pool(64);
    Scheduler scheduler(
        {.prefill = PrefillMode::kWhole, .max_num_seqs = 8, .max_num_batched_tokens = 10}, pool);
    scheduler.submit(spec(1, 4, 8));
    scheduler.submit(spec(2, 3, 8));
    CHECK(run_step(scheduler) == Rows{{1, 4}, {2, 3}});
    scheduler.submit(spec(3, 9, 8));
    scheduler.submit(spec(4, 1, 8));
    CHECK(run_step(scheduler) == Rows{{3, 9}});
    CHECK(run_step(scheduler) == Rows{{1, 1}, {2, 1}, {3, 1}, {4, 1}});
  }

  TEST_CASE("a whole prompt longer than the budget runs alone") {
    kv::PagePool pool(64);
    Scheduler scheduler({.prefill = PrefillMode::kWhole, .max_num_batched_tokens = 10}, pool);
    scheduler.submit(spec(1, 4, 8));
    scheduler.submit(spec(2, 40, 8));
    scheduler.submit(spec(3, 5, 8));
    CHECK(run_step(scheduler) == Rows{{1, 4}});
    CHECK(run_step(scheduler) == Rows{{2, 40}});
    CHECK(run_step(scheduler) == Rows{{1, 1}, {2, 1}, {3, 5}});
  }

  TEST_CASE("the higher priority enters first, ties by arrival, and nobody overtakes") {
    kv::PagePool pool(64);
    Scheduler scheduler({.max_num_seqs = 1, .max_num_batched_tokens = 100}, pool);
    scheduler.submit(spec(1, 30, 2));
    scheduler.submit(spec(2, 3, 2));
    scheduler.submit(spec(3, 3, 2, 7));
    scheduler.submit(spec(4, 3, 2, -1));
    scheduler.submit(spec(5, 3, 2, 7));
    for (const int id : {3, 5, 1, 2, 4}) {
      CAPTURE(id);
      const Rows rows = run_step(scheduler);
      REQUIRE(rows.size() == 1);
      CHECK(rows[0].id == id);
      scheduler.finish(SequenceId{id});
    }
  }

  TEST_CASE("waiting makes up for priority: a stream of urgent requests starves nobody") {
    kv::PagePool pool(64);
    Scheduler scheduler({.max_num_seqs = 1, .max_num_batched_tokens = 8, .ageing_steps = 20}, pool);
    scheduler.submit(spec(0, 2, 1, 0));
    int ran_at = -1;
    for (int id = 1; id < 100 && ran_at < 0; ++id) {
      scheduler.submit(spec(id, 2, 1, 2));
      const StepPlan plan = scheduler.plan();
      scheduler.commit();
      const SequenceId ran = plan.sequences.at(0).id;
      if (ran == SequenceId{0}) ran_at = id;
      scheduler.finish(ran);
    }
    // Two levels count as much as 40 steps; the older of sequences submitted at the same step is
    // first.
    CHECK(ran_at == 41);
  }

  TEST_CASE("preempts the last in rank, which comes back before later arrivals") {
    kv::PagePool pool(4);
    Scheduler scheduler({.max_num_seqs = 3, .max_num_batched_tokens = 100}, pool);
    scheduler.submit(spec(1, 15, 30));
    scheduler.submit(spec(2, 14, 30));
    CHECK(run_step(scheduler) == Rows{{1, 15}, {2, 14}});
    scheduler.submit(spec(3, 10, 30));
    int num_steps = 0;
    while (scheduler.num_running() == 2) {
      REQUIRE(++num_steps < 100);
      run_step(scheduler);
    }
    // Both grew to two pages; sequence 1 took the pages of sequence 2 for its third page.
    CHECK(scheduler.pages_of(SequenceId{1}).num_tokens() == 33);
    CHECK(scheduler.pages_of(SequenceId{2}).num_tokens() == 0);
    CHECK(run_step(scheduler) == Rows{{1, 1}});  // one page is free, sequence 2 needs more
    scheduler.finish(SequenceId{1});
    CHECK(run_step(scheduler) == Rows{{2, 32}, {3, 10}});  // its prompt and its output so far
  }

  TEST_CASE("nothing enters in a step that preempts") {
    kv::PagePool pool(5);
    Scheduler scheduler({.max_num_seqs = 3, .max_num_batched_tokens = 100}, pool);
    scheduler.submit(spec(1, 31, 30));
    scheduler.submit(spec(2, 31, 30));
    CHECK(run_step(scheduler).size() == 2);
    CHECK(run_step(scheduler).size() == 2);
    scheduler.submit(spec(3, 1, 2, 9));
    const StepPlan plan = scheduler.plan();
    CHECK(plan.preempted == std::vector<SequenceId>{SequenceId{2}});
    CHECK(plan.sequences.size() == 1);
    CHECK(plan.sequences[0].id == SequenceId{1});
  }

  TEST_CASE("a static batch is closed until all its members are finished") {
    kv::PagePool pool(64);
    Scheduler scheduler(
        {.mode = BatchMode::kStatic, .max_num_seqs = 2, .max_num_batched_tokens = 10}, pool);
    for (int id = 1; id <= 3; ++id) scheduler.submit(spec(id, 8, 8));
    CHECK(run_step(scheduler) == Rows{{1, 8}, {2, 2}});
    CHECK(run_step(scheduler) == Rows{{1, 1}, {2, 6}});
    scheduler.finish(SequenceId{2});
    CHECK(run_step(scheduler) == Rows{{1, 1}});
    scheduler.finish(SequenceId{1});
    CHECK(run_step(scheduler) == Rows{{3, 8}});
  }

  TEST_CASE("a static batch reserves its whole length and is never preempted") {
    kv::PagePool pool(4);
    Scheduler scheduler(
        {.mode = BatchMode::kStatic, .max_num_seqs = 4, .max_num_batched_tokens = 100}, pool);
    for (int id = 1; id <= 3; ++id) scheduler.submit(spec(id, 1, 32));  // two pages each
    for (int step = 0; step < 31; ++step) CHECK(run_step(scheduler).size() == 2);
  }

  TEST_CASE("refuses at once, with the numbers, what can never fit") {
    kv::PagePool pool(4);
    Scheduler scheduler({}, pool);
    scheduler.submit(spec(1, 60, 5));  // 64 tokens, because the last new one is never stored
    try {
      scheduler.submit(spec(2, 60, 6));
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kTooLong);
      CHECK(std::string(error.what()).find("60 prompt tokens and 6 new tokens need 5 KV pages") !=
            std::string::npos);
    }
    CHECK(scheduler.num_unfinished() == 1);
  }

  TEST_CASE("a plan that failed is planned again") {
    kv::PagePool pool(8);
    Scheduler scheduler({.max_num_batched_tokens = 20}, pool);
    scheduler.submit(spec(1, 30, 5));
    const StepPlan failed = scheduler.plan();
    const StepPlan again = scheduler.plan();
    scheduler.check_invariants();
    CHECK(again.sequences[0].first_token == 0);
    CHECK(again.num_tokens == failed.num_tokens);
    scheduler.commit();
    CHECK_THROWS_AS(scheduler.commit(), Error);
  }

  TEST_CASE("a sequence that is left without a token is an error, not a spin") {
    kv::PagePool pool(8);
    Scheduler scheduler({}, pool);
    scheduler.submit(spec(1, 3, 5));
    scheduler.plan();
    scheduler.commit();
    CHECK_THROWS_WITH_AS(scheduler.plan(),
                         doctest::Contains("no progress: 1 running, 0 waiting, 7 of 8 pages free"),
                         Error);
  }

  TEST_CASE("misuse and options out of range are refused") {
    kv::PagePool pool(8);
    CHECK_THROWS_AS(Scheduler({.max_num_seqs = 0}, pool), Error);
    CHECK_THROWS_AS(Scheduler({.max_num_batched_tokens = 0}, pool), Error);
    CHECK_THROWS_AS(Scheduler({.ageing_steps = 0}, pool), Error);
    CHECK_THROWS_WITH_AS(Scheduler({.window_tokens = -1}, pool),
                         "scheduler: window_tokens is -1; it must be at least 0", Error);
    CHECK_THROWS_WITH_AS(Scheduler({.max_drafts_per_step = -1}, pool),
                         "scheduler: max_drafts_per_step is -1; it must be at least 0", Error);
    Scheduler scheduler({}, pool);
    CHECK(scheduler.plan().sequences.empty());
    CHECK_THROWS_AS(scheduler.submit(spec(1, 0, 5)), Error);
    CHECK_THROWS_AS(scheduler.submit(spec(1, 5, 0)), Error);
    scheduler.submit(spec(1, 5, 1));
    CHECK_THROWS_AS(scheduler.submit(spec(1, 5, 1)), Error);
    CHECK_THROWS_AS(scheduler.append_tokens(SequenceId{1}), Error);
    CHECK_THROWS_AS(scheduler.finish(SequenceId{2}), Error);
    scheduler.plan();
    scheduler.commit();
    CHECK_THROWS_AS(scheduler.append_tokens(SequenceId{1}), Error);  // the last token needs no slot
  }
}

}  // namespace
}  // namespace caption::scheduler
