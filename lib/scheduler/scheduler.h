// scheduler/scheduler.h: who runs next, and how many of its tokens. Decisions only, no tensors.
//
//   submit(spec)             a sequence waits
//   plan()                   the next step; its pages are taken
//   commit()                 the step has run: the planned tokens are in their pages
//   append_token(id)         a token was chosen for a sequence that is wholly in its pages
//   finish(id)               the sequence leaves; its pages are free at once
//
// Rank. Sequences are served by (submission step - priority * ageing_steps), then by arrival:
// among those submitted together the higher priority goes first, and `ageing_steps` of waiting make
// up for one level, so no sequence starves. A rank never changes, also not by preemption.
//
// Continuous mode. A step holds the running sequences that need one token, then prompts, each in
// order of rank, within max_num_batched_tokens. The first in rank of the waiting enters when fewer
// than max_num_seqs run, the step has tokens left, and the free pages hold all its known tokens,
// beside what the running ones still need for theirs and one page more for each that may grow;
// nobody overtakes it. When the pages of a step do not suffice, the last in rank of the running
// gives all its pages back and waits again (recompute); nothing enters in such a step. The first in
// rank of the running therefore always advances, and the whole pool is enough for any one sequence
// that submit() accepts: every sequence ends.
//
// Static mode. A batch enters when nothing runs: the first in rank, as many as max_num_seqs and the
// pages for prompt and max_new_tokens of each allow. Nothing enters before all are finished, and
// nothing is preempted.
//
// Whole prompts (PrefillMode::kWhole). Prompts that do not fit beside the decodes take a step
// before them. One prompt (with its output so far, after a preemption) longer than
// max_num_batched_tokens runs alone in a step: the only case in which that budget is passed.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "scheduler/options.h"

namespace caption::scheduler {

enum class SequenceId : std::int64_t {};

struct SequenceSpec {
  SequenceId id{};                     // unused before
  std::int64_t num_prompt_tokens = 0;  // >= 1
  std::int64_t max_new_tokens = 0;     // >= 1
  std::int32_t priority = 0;           // higher first
};

// Compute the known tokens [first_token, first_token + num_tokens) of the sequence.
struct PlannedSequence {
  SequenceId id{};
  std::int64_t first_token = 0;
  std::int64_t num_tokens = 0;
  bool is_last_known = false;  // the step reaches the last known token: its logits are wanted
};

struct StepPlan {
  std::vector<PlannedSequence> sequences;  // each at most once
  std::vector<SequenceId> preempted;       // before this step; none of `sequences`
  std::int64_t num_tokens = 0;
};

// One thread at a time. Steady decoding steps allocate no memory.
class Scheduler {
 public:
  // The pool is borrowed and must outlive the scheduler, which must be its only user.
  // Throws Error(kUsage) for options out of range.
  Scheduler(const SchedulerOptions& options, kv::PagePool& pool);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Throws Error(kTooLong) with the numbers when the pool can never hold the sequence; its last
  // token needs no page.
  void submit(const SequenceSpec& spec);

  // Tokens of a plan that was not committed (the step failed) are forgotten first. Empty only when
  // there is no sequence; otherwise a plan without tokens throws Error(kInternal) with the state.
  // Valid until the next call.
  const StepPlan& plan();
  void commit();
  void append_token(SequenceId id);
  void finish(SequenceId id);  // waiting or running

  const kv::PageTable& pages_of(SequenceId id) const;
  std::int64_t num_unfinished() const { return static_cast<std::int64_t>(sequences_.size()); }
  std::int64_t num_running() const { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t num_waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  // Tokens that unfinished sequences may still need pages for, at most.
  std::int64_t num_tokens_to_come() const { return num_tokens_to_come_; }

  // Throws Error(kInternal) naming what is wrong with pages, budgets or counters. For tests.
  void check_invariants() const;

 private:
  struct Sequence;
  struct Rank {
    std::int64_t submission_step;  // less priority * ageing_steps
    std::int64_t arrival;
    friend bool operator<(const Rank& a, const Rank& b) {
      return a.submission_step != b.submission_step ? a.submission_step < b.submission_step
                                                    : a.arrival < b.arrival;
    }
  };
  struct RankLess {
    bool operator()(const Sequence* a, const Sequence* b) const;
  };

  Sequence& find(SequenceId id) const;
  std::int64_t reserved_tokens(const Sequence& sequence) const;
  bool has_room_for(const Sequence& sequence) const;
  void forget_uncommitted();
  void admit();
  void choose();
  void choose_decodes();
  void choose_prompts();
  void choose_tokens(const Sequence& sequence, std::int64_t num_tokens);
  std::int64_t pages_short() const;
  void preempt_last();
  void take_pages();
  void resize_table(Sequence& sequence, std::int64_t num_tokens);
  std::string describe_state() const;

  const SchedulerOptions options_;
  kv::PagePool& pool_;
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  std::set<Sequence*, RankLess> waiting_;
  std::vector<Sequence*> running_;  // by rank
  StepPlan plan_;
  bool plan_is_open_ = false;  // planned and not committed
  std::int64_t step_ = 0;
  std::int64_t num_submitted_ = 0;
  std::int64_t num_tokens_to_come_ = 0;
};

}  // namespace caption::scheduler
