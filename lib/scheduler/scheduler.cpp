#include "scheduler/scheduler.h"

#include <algorithm>
#include <iterator>

#include "base/counted.h"
#include "base/error.h"
#include "scheduler/internal/sequence.h"
#include "scheduler/positions.h"

namespace caption::scheduler {
namespace {

// The search for a request to admit passes over requests that wait for another's prefix, at most
// this many per place in the batch: the search costs time in every step.
constexpr std::int64_t kMaxOvertakenPerPlace = 4;

}  // namespace

std::int64_t most_pages(const SequenceSpec& spec) {
  const std::int64_t per_branch =
      kv::pages_for_tokens(num_positions(spec.num_prompt_tokens, spec.max_new_tokens));
  // With kOwnStep the prompt may shrink, so the number of its full, shared pages is unknown.
  const std::int64_t shared =
      spec.prompt_end == PromptEnd::kOwnStep ? 0 : spec.num_prompt_tokens / kv::kPageTokens;
  return spec.num_branches == 1 ? per_branch : shared + spec.num_branches * (per_branch - shared);
}

std::int64_t pool_pages(const SequenceSpec& spec) {
  return std::max(kLeastPoolPages, most_pages(spec));
}

bool Scheduler::RankLess::operator()(const Sequence* a, const Sequence* b) const {
  return a->rank < b->rank;
}

Scheduler::Scheduler(const SchedulerOptions& options, kv::PagePool& pool, kv::PageTier* tier)
    : options_(options), pool_(pool), tier_(tier) {
  const auto check = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value >= least) return;
    throw Error(ErrorCode::kUsage, std::string("scheduler: ") + name + " is " +
                                       std::to_string(value) + "; it must be at least " +
                                       std::to_string(least));
  };
  check("max_num_seqs", options.max_num_seqs, 1);
  check("max_num_batched_tokens", options.max_num_batched_tokens, 1);
  check("window_tokens", options.window_tokens, 0);
  check("max_drafts_per_step", options.max_drafts_per_step, 0);
  check("ageing_steps", options.ageing_steps, 1);
  pool_.set_tier(tier);
}

Scheduler::~Scheduler() { pool_.set_tier(nullptr); }

void Scheduler::submit(SequenceSpec spec) {
  CAPTION_CHECK(spec.num_prompt_tokens >= 1 && spec.max_new_tokens >= 1 && spec.num_branches >= 1,
                "scheduler: a sequence needs a prompt, room for a new token and a branch");
  CAPTION_CHECK(static_cast<std::int64_t>(spec.prompt_pages.size()) <=
                    spec.num_prompt_tokens / kv::kPageTokens,
                "scheduler: more contents than the prompt has full pages");
  CAPTION_CHECK(spec.prompt_part.num_tokens == 0 ||
                    (spec.prompt_part.tokens_in_page() != 0 &&
                     spec.prompt_part.num_tokens <= spec.num_prompt_tokens &&
                     spec.prompt_part.page() <= std::ssize(spec.prompt_pages)),
                "scheduler: a part of a prompt that does not end inside a page of it");
  CAPTION_CHECK(!sequences_.contains(spec.id), "scheduler: a sequence was submitted twice");
  const std::int64_t most_branches =
      std::min(options_.max_num_seqs, options_.max_num_batched_tokens);
  if (spec.num_branches > most_branches) {
    throw Error(ErrorCode::kUsage,
                "request: " + std::to_string(spec.num_branches) +
                    " beams run together; max_num_seqs and max_num_batched_tokens allow " +
                    std::to_string(most_branches) + "; raise them or use fewer beams");
  }
  const Rank rank{step_ - spec.priority * options_.ageing_steps, num_submitted_};
  auto sequence = std::make_unique<Sequence>(std::move(spec), rank, pool_);
  if (most_pages(sequence->spec) > pool_.num_pages()) {
    const SequenceSpec& too_long = sequence->spec;
    const std::string beams =
        too_long.num_branches == 1 ? "" : " in " + std::to_string(too_long.num_branches) + " beams";
    throw Error(ErrorCode::kTooLong,
                "request: " + counted(too_long.num_prompt_tokens, "prompt token") + " and " +
                    counted(too_long.max_new_tokens, "new token") + beams + " need " +
                    counted(most_pages(sequence->spec), "KV page") + " of " +
                    std::to_string(kv::kPageTokens) + " tokens; there are " +
                    std::to_string(pool_.num_pages()) +
                    "; raise --kv-cache-bytes, or lower --frames or --max-new-tokens");
  }
  ++num_submitted_;
  waiting_.insert(sequence.get());
  sequences_.emplace(sequence->spec.id, std::move(sequence));
}

const StepPlan& Scheduler::plan() {
  forget_uncommitted();
  plan_.sequences.clear();
  plan_.preempted.clear();
  plan_.copies.clear();
  plan_.num_tokens = 0;
  plan_is_open_ = true;
  if (sequences_.empty()) return plan_;

  ++step_;
  choose();
  if (pages_short() > 0 && drop_drafts()) choose();
  while (pages_short() > 0) {
    preempt_last();
    choose();
  }
  if (plan_.preempted.empty()) {
    admit();
    choose();
    if (pages_short() > 0 && drop_drafts()) choose();
  }
  CAPTION_CHECK(!plan_.sequences.empty(), "scheduler: no progress: " + describe_state());
  take_pages();
  drop_drafts();
  return plan_;
}

void Scheduler::commit() {
  CAPTION_CHECK(plan_is_open_, "scheduler: there is no plan to commit");
  plan_is_open_ = false;
  for (const PlannedSequence& planned : plan_.sequences) {
    if (planned.branch != 0) continue;  // the branches of a sequence advance together
    Sequence& sequence = find(planned.id);
    const std::int64_t num_before = sequence.num_computed;
    sequence.num_computed += planned.num_tokens - planned.num_drafts;
    sequence.num_unverified = planned.num_drafts;
    publish_pages(sequence, num_before);
    release_before_window(sequence);
  }
}

void Scheduler::release_before_window(Sequence& sequence) {
  if (options_.window_tokens == 0) return;
  // The first token that the next one, at position num_computed, attends to.
  const std::int64_t first = sequence.num_computed - options_.window_tokens + 1;
  if (first < kv::kPageTokens) return;
  if (sequence.spec.prompt_part.page() < first / kv::kPageTokens) leave_part(sequence);
  for (std::int32_t i = 0; i < sequence.num_active; ++i) {
    sequence.branches[static_cast<std::size_t>(i)].release_before(first);
  }
}

void Scheduler::shrink(SequenceId id, std::int64_t num_slots) {
  Sequence& sequence = find(id);
  CAPTION_CHECK(sequence.spec.prompt_end == PromptEnd::kOwnStep && !sequence.is_forked() &&
                    sequence.num_computed == sequence.spec.num_prompt_tokens &&
                    sequence.num_saved == 0 && num_slots >= 1,
                "scheduler: a sequence shrinks when its prompt has been computed, once");
  CAPTION_CHECK(options_.window_tokens == 0, "scheduler: slots in a window cannot shrink");
  sequence.table().truncate(num_slots);
  sequence.num_saved = sequence.num_computed - num_slots;
}

std::int64_t Scheduler::most_prompt_tokens() const {
  std::int64_t prompts = 0;
  std::int64_t decodes = 0;
  for (const Sequence* sequence : running_) {
    const std::int64_t computable = sequence->num_computable() * sequence->num_active;
    (sequence->num_computable() > 1 ? prompts : decodes) += computable;
  }
  const bool may_admit = options_.mode == BatchMode::kContinuous || running_.empty();
  std::int64_t num_taken = num_places();
  for (const Sequence* sequence : waiting_) {
    num_taken += sequence->spec.num_branches;
    if (!may_admit || num_taken > options_.max_num_seqs) break;
    prompts += sequence->num_computable();
  }
  return std::clamp<std::int64_t>(options_.max_num_batched_tokens - decodes, 0, prompts);
}

bool Scheduler::can_draft(SequenceId id) const {
  const Sequence& sequence = find(id);
  return sequence.may_have_drafts() && sequence.num_remaining() == 1 &&
         sequence.num_computed >= sequence.spec.num_prompt_tokens;
}

std::span<const SequenceId> Scheduler::may_end_prompt() {
  ending_.clear();
  std::int64_t num_decoding = 0;
  for (const Sequence* sequence : running_) {
    if (sequence->num_computable() == 1) num_decoding += sequence->num_active;
  }
  const std::int64_t budget = options_.max_num_batched_tokens - num_decoding;
  for (const Sequence* sequence : running_) {
    const bool ends = sequence->num_remaining() > 0 && sequence->num_remaining() <= budget;
    if (ends && sequence->may_have_drafts() && !can_draft(sequence->spec.id)) {
      ending_.push_back(sequence->spec.id);
    }
  }
  if (options_.mode == BatchMode::kStatic && !running_.empty()) return ending_;
  std::int64_t num_taken = num_places();
  for (const Sequence* sequence : waiting_) {
    num_taken += sequence->spec.num_branches;
    if (num_taken > options_.max_num_seqs) break;
    if (sequence->may_have_drafts()) ending_.push_back(sequence->spec.id);
  }
  return ending_;
}

void Scheduler::propose(SequenceId id, std::int64_t num_drafts) {
  Sequence& sequence = find(id);
  CAPTION_CHECK(sequence.may_have_drafts() && sequence.num_remaining() > 0 && num_drafts >= 0,
                "scheduler: drafts of a sequence without a last token to compute");
  if (sequence.num_drafts == 0 && num_drafts > 0) drafted_.push_back(&sequence);
  sequence.num_drafts = std::min(num_drafts, sequence.max_tokens() - sequence.num_known);
}

void Scheduler::append_tokens(SequenceId id, std::int64_t num_tokens) {
  Sequence& sequence = find(id);
  CAPTION_CHECK(sequence.spec.num_branches == 1, "scheduler: a token for one branch of several");
  CAPTION_CHECK(sequence.num_remaining() == 0,
                "scheduler: a token was chosen before the sequence was computed");
  CAPTION_CHECK(num_tokens >= 1 && num_tokens - 1 <= sequence.num_unverified,
                "scheduler: more tokens were chosen than the step computed");
  CAPTION_CHECK(sequence.num_known + num_tokens <= sequence.max_tokens(),
                "scheduler: more tokens were chosen than were asked for");
  sequence.num_computed += num_tokens - 1;
  sequence.num_known += num_tokens;
  sequence.num_unverified = 0;
  if (num_tokens > 1) release_before_window(sequence);
}

void Scheduler::fork(SequenceId id, std::span<const std::int32_t> parents) {
  Sequence& sequence = find(id);
  CAPTION_CHECK(static_cast<std::int32_t>(parents.size()) == sequence.spec.num_branches &&
                    sequence.spec.num_branches > 1,
                "scheduler: a fork into another number of branches");
  CAPTION_CHECK(sequence.num_remaining() == 0 && sequence.num_known < sequence.max_tokens(),
                "scheduler: a fork before the sequence was computed, or after its end");
  for (std::size_t i = 0; i < parents.size(); ++i) {
    CAPTION_CHECK(parents[i] >= 0 && parents[i] < sequence.num_active,
                  "scheduler: a branch without a parent");
    sequence.next_branches[i].fork(sequence.branches[static_cast<std::size_t>(parents[i])]);
  }
  sequence.branches.swap(sequence.next_branches);
  for (kv::PageTable& table : sequence.next_branches) table.clear();
  sequence.num_active = sequence.spec.num_branches;
  ++sequence.num_known;
}

void Scheduler::finish(SequenceId id) {
  Sequence& sequence = find(id);
  if (waiting_.erase(&sequence) == 0) {
    leave_running(sequence);
    std::erase(running_, &sequence);
  }
  std::erase(drafted_, &sequence);
  sequences_.erase(id);
}

const kv::PageTable& Scheduler::pages_of(SequenceId id, std::int32_t branch) const {
  return find(id).branches.at(static_cast<std::size_t>(branch));
}

std::int64_t Scheduler::cached_tokens_of(SequenceId id) const { return find(id).num_cached; }

std::int64_t Scheduler::num_empty_slots() const {
  std::int64_t num_empty = 0;
  for (const Sequence* sequence : running_) {
    for (auto branch = sequence->branches.begin(); branch != sequence->branches.end(); ++branch) {
      const auto open = branch->open_page();
      if (!open.has_value()) continue;
      const bool is_counted =
          std::any_of(sequence->branches.begin(), branch,
                      [&](const kv::PageTable& table) { return table.open_page() == open; });
      if (!is_counted) num_empty += kv::kPageTokens - branch->num_tokens() % kv::kPageTokens;
    }
  }
  return num_empty;
}

Scheduler::Sequence& Scheduler::find(SequenceId id) const {
  const auto found = sequences_.find(id);
  CAPTION_CHECK(found != sequences_.end(),
                "scheduler: there is no sequence " + std::to_string(static_cast<std::int64_t>(id)));
  return *found->second;
}

std::int64_t Scheduler::num_places() const {
  std::int64_t num_places = 0;
  for (const Sequence* sequence : running_) num_places += sequence->spec.num_branches;
  return num_places;
}

// Releases the slots of tokens that were planned but not computed, and of drafts that were wrong.
void Scheduler::forget_uncommitted() {
  plan_is_open_ = false;
  for (Sequence* sequence : running_) {
    sequence->num_unverified = 0;
    for (std::int32_t i = 0; i < sequence->num_active; ++i) {
      sequence->branches[static_cast<std::size_t>(i)].truncate(sequence->num_computed -
                                                               sequence->num_saved);
    }
  }
}

// Number of pages reserved for a running sequence, beyond those it has, before others are admitted.
std::int64_t Scheduler::pages_promised(const Sequence& sequence) const {
  const std::int64_t most = most_pages(sequence.spec);
  // All branches together have at least the pages of one table; a page that will be copied is
  // excluded.
  const std::int64_t has =
      std::ssize(sequence.table().pages()) - (sequence.ends_in_shared_part() ? 1 : 0);
  if (options_.mode == BatchMode::kStatic) return most - has;
  // Each branch may need a page for its token and one for the copy of a shared page.
  if (sequence.is_forked()) return std::min(most - has, 2 * std::int64_t{sequence.num_active});
  const std::int64_t to_grow = sequence.spec.num_branches;
  const std::int64_t num_slots = sequence.num_known - sequence.num_saved;
  return std::min(kv::pages_for_tokens(num_slots) + to_grow, most) - has;
}

bool Scheduler::has_room_for(const Sequence& sequence, std::int64_t num_pages_shared) const {
  std::int64_t needed = options_.mode == BatchMode::kStatic
                            ? most_pages(sequence.spec)
                            : kv::pages_for_tokens(sequence.num_known);
  needed -= num_pages_shared;
  for (const Sequence* other : running_) needed += pages_promised(*other);
  return needed <= pool_.num_free();
}

void Scheduler::admit() {
  if (options_.mode == BatchMode::kStatic && !running_.empty()) return;
  std::int64_t num_tokens = 0;
  for (const Sequence* sequence : running_) num_tokens += sequence->num_remaining();
  std::int64_t num_places = this->num_places();
  std::int64_t num_overtaken = 0;
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    Sequence& sequence = **next;
    if (num_places + sequence.spec.num_branches > options_.max_num_seqs) break;
    const bool step_is_full = num_tokens >= options_.max_num_batched_tokens;
    if (options_.mode == BatchMode::kContinuous && step_is_full) break;
    const std::int64_t num_used = find_prefix(sequence);
    if (waits_for_prefix(sequence, static_cast<std::int64_t>(found_.size()))) {
      if (++num_overtaken > kMaxOvertakenPerPlace * options_.max_num_seqs) break;
      ++next;
      continue;
    }
    if (!has_room_for(sequence, num_used)) break;
    next = enter(next);
    num_tokens += sequence.num_remaining();
    num_places += sequence.spec.num_branches;
  }
}

Scheduler::WaitingSet::iterator Scheduler::enter(WaitingSet::iterator waiting) {
  Sequence* const sequence = *waiting;
  take_prefix(*sequence);
  release_before_window(*sequence);
  running_.insert(std::upper_bound(running_.begin(), running_.end(), sequence, RankLess{}),
                  sequence);
  return waiting_.erase(waiting);
}

// Releases all pages. A branched output is discarded, so it restarts from the prompt.
void Scheduler::leave_running(Sequence& sequence) {
  forget_pages_in_work(sequence);
  leave_part(sequence);
  for (kv::PageTable& table : sequence.branches) table.clear();
  sequence.num_computed = 0;
  sequence.num_saved = 0;
  sequence.num_unverified = 0;
  sequence.shares_part = false;
  sequence.num_active = 1;
  if (sequence.spec.num_branches > 1) sequence.num_known = sequence.spec.num_prompt_tokens;
}

void Scheduler::preempt_last() {
  CAPTION_CHECK(num_running() > 1,
                "scheduler: one sequence overflows all pages: " + describe_state());
  Sequence* last = running_.back();
  running_.pop_back();
  leave_running(*last);
  waiting_.insert(last);
  plan_.preempted.push_back(last->spec.id);
}

void Scheduler::take_pages() {
  for (const PlannedSequence& planned : plan_.sequences) {
    kv::PageTable& table = find(planned.id).branches[static_cast<std::size_t>(planned.branch)];
    CAPTION_CHECK(table.append(planned.num_tokens, plan_.copies) == kv::Fit::kFits,
                  "scheduler: planned without the pages: " + describe_state());
  }
}

std::string Scheduler::describe_state() const {
  std::string text = std::to_string(num_running()) + " running, " + std::to_string(num_waiting()) +
                     " waiting, " + std::to_string(pool_.num_free()) + " of " +
                     std::to_string(pool_.num_pages()) + " pages free, step " +
                     std::to_string(step_);
  const Sequence* first = !running_.empty()   ? running_.front()
                          : !waiting_.empty() ? *waiting_.begin()
                                              : nullptr;
  if (first != nullptr) {
    text += "; first in rank: sequence " +
            std::to_string(static_cast<std::int64_t>(first->spec.id)) + " with " +
            std::to_string(first->num_computed) + " of " + std::to_string(first->num_known) +
            " tokens computed";
  }
  return text;
}

void Scheduler::check_invariants() const {
  std::vector<const kv::PageTable*> tables;
  for (const auto& [id, sequence] : sequences_) {
    for (const kv::PageTable& table : sequence->branches) tables.push_back(&table);
    for (const kv::PageTable& table : sequence->next_branches) {
      CAPTION_CHECK(table.pages().empty(), "scheduler: a fork left pages behind");
    }
  }
  kv::check_pages(pool_, tables);
  CAPTION_CHECK(num_running() + num_waiting() == num_unfinished(),
                "scheduler: a sequence is neither running nor waiting, or both");
  CAPTION_CHECK(num_places() <= options_.max_num_seqs, "scheduler: too many sequences run");
  CAPTION_CHECK(std::is_sorted(running_.begin(), running_.end(), RankLess{}),
                "scheduler: the running sequences are out of rank");
  for (const Sequence* sequence : waiting_) {
    CAPTION_CHECK(sequence->table().pages().empty(), "scheduler: a waiting sequence holds pages");
  }
  for (const auto& [content, sequence] : in_work_) {
    CAPTION_CHECK(std::find(running_.begin(), running_.end(), sequence) != running_.end(),
                  "scheduler: a page is in work by a sequence that does not run");
  }
}

}  // namespace caption::scheduler
