// scheduler/scheduler.h: who runs next, and how many of its tokens. Decisions only, no tensors.
//
//   submit(spec)             a sequence waits
//   plan()                   the next step; its pages are taken
//   commit()                 the step has run: the planned tokens are in their pages
//   shrink(id, slots)        the prompt, all of it computed, takes fewer slots from now on
//   append_token(id)         a token was chosen for a sequence that is wholly in its pages
//   fork(id, parents)        a token was chosen for each branch (beam) of a sequence
//   finish(id)               the sequence leaves; its pages are free at once
//
// Rank. Sequences are served by (submission step - priority * ageing_steps), then by arrival:
// among those submitted together the higher priority goes first, and `ageing_steps` of waiting make
// up for one level, so no sequence starves. A rank never changes, also not by preemption.
//
// Branches. A sequence of several branches computes its prompt once; the first fork() makes its
// branches, which share what they have in common: a page is copied when one of them writes to it.
// They run, count as places and are preempted together, and then start again after the prompt.
//
// Prefixes. Full prompt pages whose contents are named (SequenceSpec::prompt_pages) are published
// when they are computed. A sequence that enters takes the pages of its longest known prefix from
// the pool, and what follows it from the tier, if there is one; at least its last token is
// computed. One that would compute a page which a running sequence is computing right now waits for
// it and may be overtaken meanwhile (continuous mode). Where prompts part inside a page at a known
// place (the end of a video), the page is found up to there, and copied when it is written to.
//
// Continuous mode. A step holds the running sequences that need one token, then prompts, each in
// order of rank, within max_num_batched_tokens. The first in rank of the waiting enters when fewer
// than max_num_seqs run, the step has tokens left, and the free pages hold all its known tokens,
// beside what the running ones still need for theirs and one page more for each branch that may
// grow; nobody overtakes it for want of room. When the pages of a step do not suffice, the last in
// rank of the running gives all its pages back and waits again (recompute); nothing enters in such
// a step. The first in rank of the running therefore always advances, and the whole pool is enough
// for any one sequence that submit() accepts: every sequence ends.
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
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "kv/page_pool.h"
#include "kv/page_table.h"
#include "kv/page_tier.h"
#include "scheduler/options.h"

namespace caption::scheduler {

enum class SequenceId : std::int64_t {};

enum class PromptEnd {
  kPlain,
  kOwnStep,  // no step computes tokens on both sides of it: shrink() may come between
};

// The first tokens of a prompt that others share as a whole, ending inside a page.
struct PromptPart {
  Hash128 content{};
  std::int64_t num_tokens = 0;  // 0: there is none; else no multiple of kPageTokens

  std::int64_t page() const { return num_tokens / kv::kPageTokens; }
  std::int64_t tokens_in_page() const { return num_tokens % kv::kPageTokens; }
};

struct SequenceSpec {
  SequenceId id{};                     // unused before
  std::int64_t num_prompt_tokens = 0;  // >= 1
  std::int64_t max_new_tokens = 0;     // >= 1
  std::int32_t priority = 0;           // higher first
  std::int32_t num_branches = 1;       // places it takes; 1 <= num_branches <= max_num_seqs
  PromptEnd prompt_end = PromptEnd::kPlain;
  std::vector<Hash128> prompt_pages = {};  // contents of its full prompt pages; empty: never shared
  PromptPart prompt_part = {};
};

// Pages that the sequence takes at most, with max_new_tokens chosen; the last one of them needs no
// place. Branches share the whole pages of the prompt, unless it may shrink.
std::int64_t most_pages(const SequenceSpec& spec);

// An engine refuses a pool of fewer pages.
inline constexpr std::int64_t kLeastPoolPages = 2;
// Pages that a pool must have to run the sequence: most_pages(), and at least kLeastPoolPages.
std::int64_t pool_pages(const SequenceSpec& spec);

// Compute the known tokens [first_token, first_token + num_tokens) of the sequence.
struct PlannedSequence {
  SequenceId id{};
  std::int32_t branch = 0;
  std::int64_t first_token = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_saved = 0;  // token t lies in slot number t - num_saved of its table
  bool is_last_known = false;  // the step reaches the last known token: its logits are wanted
};

struct StepPlan {
  std::vector<PlannedSequence> sequences;  // each branch at most once, branches side by side
  std::vector<SequenceId> preempted;       // before this step; none of `sequences`
  std::vector<kv::PageCopy> copies;        // to be made before anything is computed
  std::int64_t num_tokens = 0;
};

// Counters since construction.
struct PrefixStats {
  std::int64_t lookup_tokens = 0;  // of prompts with named pages, when they entered
  std::int64_t hit_tokens = 0;     // of these, found
  std::int64_t tier_tokens = 0;    // of the found, read from the tier
};

// One thread at a time. Steady decoding steps allocate no memory.
class Scheduler {
 public:
  // The pool is borrowed and must outlive the scheduler, which must be its only user; so is the
  // tier, which may be null. Throws Error(kUsage) for options out of range.
  Scheduler(const SchedulerOptions& options, kv::PagePool& pool, kv::PageTier* tier = nullptr);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Throws Error(kTooLong) with the numbers when the pool can never hold the sequence; its last
  // token needs no page. Throws Error(kUsage) when its branches can never run together.
  void submit(SequenceSpec spec);

  // Tokens of a plan that was not committed (the step failed) are forgotten first. Empty only when
  // there is no sequence; otherwise a plan without tokens throws Error(kInternal) with the state.
  // Valid until the next call.
  const StepPlan& plan();
  void commit();
  // Right after the prompt's end was committed, before any token was chosen. Until the sequence is
  // preempted, which undoes it.
  void shrink(SequenceId id, std::int64_t num_slots);
  void append_token(SequenceId id);
  // Branch i goes on from what was branch parents[i]. All branches, from the first fork on.
  void fork(SequenceId id, std::span<const std::int32_t> parents);
  void finish(SequenceId id);  // waiting or running

  const kv::PageTable& pages_of(SequenceId id, std::int32_t branch = 0) const;
  // Prompt tokens that the sequence found in the cache when it last entered.
  std::int64_t cached_tokens_of(SequenceId id) const;
  std::int64_t num_unfinished() const { return static_cast<std::int64_t>(sequences_.size()); }
  std::int64_t num_running() const { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t num_waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  // Slots of used pages that hold no token.
  std::int64_t num_empty_slots() const;
  const PrefixStats& prefix_stats() const { return prefix_stats_; }

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

  using WaitingSet = std::set<Sequence*, RankLess>;

  Sequence& find(SequenceId id) const;
  std::int64_t num_places() const;
  std::int64_t pages_promised(const Sequence& sequence) const;
  bool has_room_for(const Sequence& sequence, std::int64_t num_pages_shared) const;
  void forget_uncommitted();
  void admit();
  WaitingSet::iterator enter(WaitingSet::iterator waiting);
  void leave_running(Sequence& sequence);
  void choose();
  void choose_decodes();
  void choose_prompts();
  void choose_tokens(const Sequence& sequence, std::int64_t num_tokens);
  std::int64_t pages_short() const;
  void preempt_last();
  void take_pages();
  // prefix.cpp
  std::int64_t num_reusable_pages(const Sequence& sequence) const;
  std::int64_t find_prefix(const Sequence& sequence);
  bool may_share_part(const Sequence& sequence, std::int64_t num_pages) const;
  bool waits_for_prefix(const Sequence& sequence, std::int64_t num_pages_found) const;
  void take_prefix(Sequence& sequence);
  void restore_prefix(Sequence& sequence);
  void restore_part(Sequence& sequence);
  void publish_pages(Sequence& sequence, std::int64_t num_computed_before);
  void leave_part(Sequence& sequence);
  void forget_pages_in_work(const Sequence& sequence);
  std::string describe_state() const;

  const SchedulerOptions options_;
  kv::PagePool& pool_;
  kv::PageTier* const tier_;
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  WaitingSet waiting_;
  std::vector<Sequence*> running_;  // by rank
  // Named pages that a running sequence is to compute.
  std::unordered_map<Hash128, const Sequence*> in_work_;
  std::vector<kv::PageId> found_;  // by the last find_prefix()
  std::optional<kv::PageId> found_part_;
  PrefixStats prefix_stats_;
  StepPlan plan_;
  bool plan_is_open_ = false;  // planned and not committed
  std::int64_t step_ = 0;
  std::int64_t num_submitted_ = 0;
};

}  // namespace caption::scheduler
