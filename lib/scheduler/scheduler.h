// scheduler/scheduler.h: chooses which sequences run in a step and how many tokens of each are
// computed. Takes decisions only; holds no tensors.
//
//   submit(spec)             adds a sequence to the waiting ones
//   plan()                   chooses the next step and allocates its pages
//   commit()                 reports that the step has run: the planned tokens are in their pages
//   shrink(id, slots)        reduces the slots of a fully computed prompt
//   propose(id, drafts)      offers unverified tokens of a sequence for the next step
//   append_tokens(id, n)     adds the n tokens chosen for a sequence whose tokens are all computed
//   fork(id, parents)        adds the chosen token of each branch (beam) of a sequence
//   finish(id)               removes the sequence and frees its pages at once
//
// Rank. Sequences are ordered by (submission step - priority * ageing_steps), then by arrival.
// Among sequences submitted together the higher priority comes first, and waiting for
// `ageing_steps` steps counts as much as one level of priority, so no sequence starves. A rank
// never changes, not even by preemption.
//
// Drafts. A sequence of which a step computes the last known token may have further tokens computed
// in that step, unverified ones, with logits for each of them. Drafts use only tokens of the budget
// and pages that no other sequence needs in the step; those of sequences that decode come before
// those of sequences whose prompts end. append_tokens() tells how many were right, and the next
// plan() releases the slots of the others. They never reach the prefix cache.
//
// Branches. A sequence with several branches computes its prompt once; the first fork() creates the
// branches, which share their common pages: a shared page is copied when one of them writes to it.
// Branches run and are preempted together, and each counts towards max_num_seqs. A preemption
// discards their output: the sequence restarts from the prompt.
//
// Prefixes. Full prompt pages whose content hashes are given (SequenceSpec::prompt_pages) are
// published when they are computed. An admitted sequence takes the pages of its longest known
// prefix from the pool, and further ones from the tier, if there is one; at least its last token is
// computed. A sequence that needs a page which a running sequence is about to compute waits for
// that page, and others may be admitted before it (continuous mode). Where prompts diverge inside a
// page at a known position (the end of a video), the page is found up to that position and copied
// on the first write.
//
// Window. When a step has run, the pages that lie before the windows of all later tokens of a
// sequence are released (SchedulerOptions::window_tokens); published ones remain in the prefix
// cache. The reckoning of pages for admission does not count on this.
//
// Continuous mode. A step contains the running sequences that need one token, then prompts, each in
// order of rank, within max_num_batched_tokens. The first waiting sequence is admitted when fewer
// than max_num_seqs run, the step has tokens left, and the free pages suffice for all its known
// tokens, for the known tokens of the running sequences, and for the growth of each branch of
// those. No other sequence overtakes it when it lacks pages. When the free pages do not suffice for
// a step, the running sequence that is last in rank releases all its pages and waits again
// (recompute); no sequence is admitted in such a step. The first running sequence therefore always
// advances, and the whole pool suffices for any one sequence that submit() accepts: every sequence
// ends.
//
// Static mode. A batch is admitted when nothing runs: the first sequences in rank, as many as
// max_num_seqs and the pages for prompt and max_new_tokens of each permit. No sequence is admitted
// before all of them are finished, and none is preempted.
//
// Whole prompts (PrefillMode::kWhole). Prompts that do not fit into the budget together with the
// decoding sequences are computed in a step before them. A single prompt (with its output so far,
// after a preemption) longer than max_num_batched_tokens runs alone in a step, the only case in
// which that budget is exceeded.
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
  // No step computes tokens on both sides of the prompt's end, so that shrink() may be called
  // there.
  kOwnStep,
};

// The leading tokens of a prompt that other prompts may share, ending inside a page.
struct PromptPart {
  Hash128 content{};
  std::int64_t num_tokens = 0;  // 0: no such part; otherwise not a multiple of kPageTokens

  std::int64_t page() const { return num_tokens / kv::kPageTokens; }
  std::int64_t tokens_in_page() const { return num_tokens % kv::kPageTokens; }
};

struct SequenceSpec {
  SequenceId id{};                     // must not belong to an unfinished sequence
  std::int64_t num_prompt_tokens = 0;  // >= 1
  std::int64_t max_new_tokens = 0;     // >= 1
  std::int32_t priority = 0;           // a higher value is served first
  // Each counts towards max_num_seqs; 1 <= num_branches <= max_num_seqs.
  std::int32_t num_branches = 1;
  PromptEnd prompt_end = PromptEnd::kPlain;
  // Content hashes of the full prompt pages; empty: not shared.
  std::vector<Hash128> prompt_pages = {};
  PromptPart prompt_part = {};
};

// Maximum number of pages that the sequence needs, with max_new_tokens sampled; the last token
// needs no slot. Branches share the full pages of the prompt unless shrink() may change them.
std::int64_t most_pages(const SequenceSpec& spec);

// The engine rejects a smaller pool.
inline constexpr std::int64_t kLeastPoolPages = 2;
// Number of pages that a pool needs to run the sequence: at least kLeastPoolPages.
std::int64_t pool_pages(const SequenceSpec& spec);

// The step computes the tokens [first_token, first_token + num_tokens) of the sequence, of which
// the last num_drafts are unverified and the others known.
struct PlannedSequence {
  SequenceId id{};
  std::int32_t branch = 0;
  std::int64_t first_token = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_saved = 0;  // token t is stored in slot t - num_saved of its table
  std::int64_t num_drafts = 0;
  bool is_last_known = false;  // the step computes the last known token, so its logits are needed

  // Number of rows of logits that are needed: those of the last known token and of each draft.
  std::int64_t num_logits() const { return is_last_known ? 1 + num_drafts : 0; }
};

struct StepPlan {
  // Each branch at most once; the branches of a sequence are adjacent.
  std::vector<PlannedSequence> sequences;
  std::vector<SequenceId> preempted;  // sequences preempted before this step; none of `sequences`
  std::vector<kv::PageCopy> copies;   // copies to be made before the step is computed
  std::int64_t num_tokens = 0;
};

// Counters since construction; tokens of prompts with content hashes, counted at admission.
struct PrefixStats {
  std::int64_t lookup_tokens = 0;  // prompt tokens looked up
  std::int64_t hit_tokens = 0;     // part of lookup_tokens: found in the pool or the tier
  // Parts of hit_tokens, which the tier had.
  std::int64_t host_tokens = 0;
  std::int64_t disk_tokens = 0;
};

// Not thread-safe. Steady decoding steps allocate no memory.
class Scheduler {
 public:
  // Borrows the pool and the tier (may be null); both must outlive the scheduler, and no other
  // object may use the pool. Throws Error(kUsage) for options out of range.
  Scheduler(const SchedulerOptions& options, kv::PagePool& pool, kv::PageTier* tier = nullptr);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Throws Error(kTooLong) with the numbers when the pool can never hold the sequence, and
  // Error(kUsage) when its branches can never run together. The last token needs no page.
  void submit(SequenceSpec spec);

  // Tokens of a plan that was not committed (because the step failed) are discarded first, but not
  // its copies, which the caller must have made. The plan is empty only when there is no sequence;
  // otherwise a plan without tokens throws Error(kInternal) with the state. Valid until the next
  // call.
  const StepPlan& plan();
  void commit();
  // Must be called after the prompt's end was committed and before a token is appended. Preemption
  // undoes it.
  void shrink(SequenceId id, std::int64_t num_slots);
  // Whether the next step computes one token of the sequence, after its prompt, in one branch.
  bool can_draft(SequenceId id) const;
  // Other sequences whose last known token the next step may compute: running ones, and the waiting
  // ones that are first in rank, as far as there are places. Valid until the next call.
  std::span<const SequenceId> may_end_prompt();
  // An upper bound of the prompt tokens that the next plan computes within the budget, unless it
  // admits a sequence before one that waits for a prefix.
  std::int64_t most_prompt_tokens() const;
  // Offers `num_drafts` tokens for the next plan, which may take fewer, and forgets them then.
  // Requires can_draft(), or that may_end_prompt() names the sequence.
  void propose(SequenceId id, std::int64_t num_drafts);
  // Adds `num_tokens` >= 1 tokens: the drafts of the last step that were right, and the one chosen
  // after them.
  void append_tokens(SequenceId id, std::int64_t num_tokens = 1);
  // Branch i continues the previous branch parents[i]. Every call names all branches.
  void fork(SequenceId id, std::span<const std::int32_t> parents);
  void finish(SequenceId id);  // may be waiting or running

  const kv::PageTable& pages_of(SequenceId id, std::int32_t branch = 0) const;
  // Prompt tokens that were found in the cache when the sequence was last admitted.
  std::int64_t cached_tokens_of(SequenceId id) const;
  std::int64_t num_unfinished() const { return static_cast<std::int64_t>(sequences_.size()); }
  std::int64_t num_running() const { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t num_waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  // Number of slots in used pages that hold no token.
  std::int64_t num_empty_slots() const;
  const PrefixStats& prefix_stats() const { return prefix_stats_; }

  // Throws Error(kInternal) naming the violated invariant of pages, budgets or counters. For tests.
  void check_invariants() const;

 private:
  struct Sequence;
  struct Rank {
    std::int64_t submission_step;  // minus priority * ageing_steps
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
  void preempt_last();
  void take_pages();
  void release_before_window(Sequence& sequence);
  // Defined in choose.cpp.
  void choose();
  void choose_decodes();
  void choose_prompts();
  std::int64_t spare_tokens() const;
  void choose_tokens(const Sequence& sequence, std::int64_t num_tokens,
                     std::int64_t num_drafts = 0);
  void choose_prompt_drafts();
  bool drop_drafts();
  std::int64_t pages_short() const;
  // Defined in prefix.cpp.
  std::int64_t num_reusable_pages(const Sequence& sequence) const;
  std::int64_t find_prefix(const Sequence& sequence);
  bool may_share_part(const Sequence& sequence, std::int64_t num_pages) const;
  bool waits_for_prefix(const Sequence& sequence, std::int64_t num_pages_found) const;
  void take_prefix(Sequence& sequence);
  bool restore_page(const Hash128& content, kv::PageId page, std::int64_t num_tokens);
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
  std::vector<Sequence*> running_;  // in order of rank
  std::vector<Sequence*> drafted_;  // sequences with drafts for the next plan
  std::vector<SequenceId> ending_;  // result of the last may_end_prompt()
  // Pages with content hashes that a running sequence has yet to compute.
  std::unordered_map<Hash128, const Sequence*> in_work_;
  std::vector<kv::PageId> found_;  // result of the last find_prefix()
  std::optional<kv::PageId> found_part_;
  PrefixStats prefix_stats_;
  StepPlan plan_;
  bool plan_is_open_ = false;  // planned, but not committed
  std::int64_t step_ = 0;
  std::int64_t num_submitted_ = 0;
};

}  // namespace caption::scheduler
