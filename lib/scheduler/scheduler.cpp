#include "scheduler/scheduler.h"

#include <algorithm>

#include "base/error.h"

namespace caption::scheduler {

struct Scheduler::Sequence {
  SequenceId id{};
  Rank rank{};
  std::int64_t num_known = 0;     // prompt and output so far
  std::int64_t num_computed = 0;  // in the pages for good
  std::int64_t max_tokens = 0;    // that can ever be in the pages
  kv::PageTable table;

  std::int64_t num_remaining() const { return num_known - num_computed; }
};

bool Scheduler::RankLess::operator()(const Sequence* a, const Sequence* b) const {
  return a->rank < b->rank;
}

Scheduler::Scheduler(const SchedulerOptions& options, kv::PagePool& pool)
    : options_(options), pool_(pool) {
  const auto check = [](const char* name, std::int64_t value) {
    if (value >= 1) return;
    throw Error(ErrorCode::kUsage, std::string("scheduler: ") + name + " is " +
                                       std::to_string(value) + "; it must be at least 1");
  };
  check("max_num_seqs", options.max_num_seqs);
  check("max_num_batched_tokens", options.max_num_batched_tokens);
  check("ageing_steps", options.ageing_steps);
}

Scheduler::~Scheduler() = default;

void Scheduler::submit(const SequenceSpec& spec) {
  CAPTION_CHECK(spec.num_prompt_tokens >= 1 && spec.max_new_tokens >= 1,
                "scheduler: a sequence needs a prompt and room for a new token");
  CAPTION_CHECK(!sequences_.contains(spec.id), "scheduler: a sequence was submitted twice");
  const std::int64_t max_tokens = spec.num_prompt_tokens + spec.max_new_tokens - 1;
  const std::int64_t num_pages = kv::pages_for_tokens(max_tokens);
  if (num_pages > pool_.num_pages()) {
    throw Error(ErrorCode::kTooLong,
                "request: " + std::to_string(spec.num_prompt_tokens) + " prompt tokens and " +
                    std::to_string(spec.max_new_tokens) + " new tokens need " +
                    std::to_string(num_pages) + " KV pages of " + std::to_string(kv::kPageTokens) +
                    " tokens; there are " + std::to_string(pool_.num_pages()) +
                    "; give the KV cache more memory, or use fewer frames or new tokens");
  }
  const Rank rank{step_ - spec.priority * options_.ageing_steps, num_submitted_++};
  auto sequence = std::make_unique<Sequence>(
      Sequence{spec.id, rank, spec.num_prompt_tokens, 0, max_tokens, kv::PageTable(pool_)});
  sequence->table.reserve_pages(num_pages);
  waiting_.insert(sequence.get());
  sequences_.emplace(spec.id, std::move(sequence));
  num_tokens_to_come_ += max_tokens;
}

const StepPlan& Scheduler::plan() {
  forget_uncommitted();
  plan_.sequences.clear();
  plan_.preempted.clear();
  plan_.num_tokens = 0;
  plan_is_open_ = true;
  if (sequences_.empty()) return plan_;

  ++step_;
  choose();
  while (pages_short() > 0) {
    preempt_last();
    choose();
  }
  if (plan_.preempted.empty()) {
    admit();
    choose();
  }
  CAPTION_CHECK(!plan_.sequences.empty(), "scheduler: no progress: " + describe_state());
  take_pages();
  return plan_;
}

void Scheduler::commit() {
  CAPTION_CHECK(plan_is_open_, "scheduler: there is no plan to commit");
  plan_is_open_ = false;
  for (const PlannedSequence& planned : plan_.sequences) {
    find(planned.id).num_computed += planned.num_tokens;
  }
}

void Scheduler::append_token(SequenceId id) {
  Sequence& sequence = find(id);
  CAPTION_CHECK(sequence.num_remaining() == 0,
                "scheduler: a token was chosen before the sequence was computed");
  CAPTION_CHECK(sequence.num_known < sequence.max_tokens,
                "scheduler: more tokens were chosen than were asked for");
  ++sequence.num_known;
}

void Scheduler::finish(SequenceId id) {
  Sequence& sequence = find(id);
  resize_table(sequence, 0);
  num_tokens_to_come_ -= sequence.max_tokens;
  if (waiting_.erase(&sequence) == 0) std::erase(running_, &sequence);
  sequences_.erase(id);
}

const kv::PageTable& Scheduler::pages_of(SequenceId id) const { return find(id).table; }

Scheduler::Sequence& Scheduler::find(SequenceId id) const {
  const auto found = sequences_.find(id);
  CAPTION_CHECK(found != sequences_.end(),
                "scheduler: there is no sequence " + std::to_string(static_cast<std::int64_t>(id)));
  return *found->second;
}

void Scheduler::forget_uncommitted() {
  plan_is_open_ = false;
  for (Sequence* sequence : running_) resize_table(*sequence, sequence->num_computed);
}

// Tokens whose pages are promised to a sequence once it runs.
std::int64_t Scheduler::reserved_tokens(const Sequence& sequence) const {
  return options_.mode == Mode::kStatic ? sequence.max_tokens : sequence.num_known;
}

bool Scheduler::has_room_for(const Sequence& sequence) const {
  std::int64_t promised = kv::pages_for_tokens(reserved_tokens(sequence));
  for (const Sequence* other : running_) {
    const std::int64_t with_one_to_grow = kv::pages_for_tokens(reserved_tokens(*other)) + 1;
    promised += std::min(with_one_to_grow, kv::pages_for_tokens(other->max_tokens)) -
                static_cast<std::int64_t>(other->table.pages().size());
  }
  return promised <= pool_.num_free();
}

void Scheduler::admit() {
  if (options_.mode == Mode::kStatic && !running_.empty()) return;
  std::int64_t num_tokens = 0;
  for (const Sequence* sequence : running_) num_tokens += sequence->num_remaining();
  while (!waiting_.empty() && num_running() < options_.max_num_seqs) {
    Sequence* first = *waiting_.begin();
    const bool step_is_full = num_tokens >= options_.max_num_batched_tokens;
    if (options_.mode == Mode::kContinuous && step_is_full) break;
    if (!has_room_for(*first)) break;
    num_tokens += first->num_remaining();
    waiting_.erase(waiting_.begin());
    running_.insert(std::upper_bound(running_.begin(), running_.end(), first, RankLess{}), first);
  }
}

// Fills the plan from the running sequences; takes no pages yet.
void Scheduler::choose() {
  plan_.sequences.clear();
  plan_.num_tokens = 0;
  if (options_.prefill == PrefillMode::kWhole) {
    std::int64_t num_decodes = 0;
    const Sequence* first_prompt = nullptr;
    for (const Sequence* sequence : running_) {
      if (sequence->num_remaining() == 1) {
        ++num_decodes;
      } else if (first_prompt == nullptr) {
        first_prompt = sequence;
      }
    }
    const bool fits_beside_decodes =
        first_prompt == nullptr ||
        num_decodes + first_prompt->num_remaining() <= options_.max_num_batched_tokens;
    if (fits_beside_decodes) choose_decodes();
  } else {
    choose_decodes();
  }
  choose_prompts();
}

void Scheduler::choose_decodes() {
  for (const Sequence* sequence : running_) {
    if (sequence->num_remaining() != 1) continue;
    if (plan_.num_tokens == options_.max_num_batched_tokens) break;
    choose_tokens(*sequence, 1);
  }
}

void Scheduler::choose_prompts() {
  for (const Sequence* sequence : running_) {
    const std::int64_t num_remaining = sequence->num_remaining();
    if (num_remaining <= 1) continue;
    const std::int64_t budget = options_.max_num_batched_tokens - plan_.num_tokens;
    if (options_.prefill == PrefillMode::kChunked) {
      if (budget == 0) break;
      choose_tokens(*sequence, std::min(num_remaining, budget));
    } else {
      if (num_remaining > budget && !plan_.sequences.empty()) break;
      choose_tokens(*sequence, num_remaining);
    }
  }
}

void Scheduler::choose_tokens(const Sequence& sequence, std::int64_t num_tokens) {
  plan_.sequences.push_back(
      {sequence.id, sequence.num_computed, num_tokens, num_tokens == sequence.num_remaining()});
  plan_.num_tokens += num_tokens;
}

// Pages the chosen tokens need beyond the free ones.
std::int64_t Scheduler::pages_short() const {
  std::int64_t num_needed = 0;
  for (const PlannedSequence& planned : plan_.sequences) {
    num_needed += find(planned.id).table.pages_to_append(planned.num_tokens);
  }
  return num_needed - pool_.num_free();
}

void Scheduler::preempt_last() {
  CAPTION_CHECK(num_running() > 1,
                "scheduler: one sequence overflows all pages: " + describe_state());
  Sequence* last = running_.back();
  running_.pop_back();
  resize_table(*last, 0);
  last->num_computed = 0;
  waiting_.insert(last);
  plan_.preempted.push_back(last->id);
}

void Scheduler::take_pages() {
  for (const PlannedSequence& planned : plan_.sequences) {
    Sequence& sequence = find(planned.id);
    resize_table(sequence, sequence.num_computed + planned.num_tokens);
  }
}

void Scheduler::resize_table(Sequence& sequence, std::int64_t num_tokens) {
  const std::int64_t num_before = sequence.table.num_tokens();
  if (num_tokens < num_before) {
    sequence.table.truncate(num_tokens);
  } else {
    CAPTION_CHECK(sequence.table.append(num_tokens - num_before) == kv::Fit::kFits,
                  "scheduler: planned without the pages: " + describe_state());
  }
  num_tokens_to_come_ -= num_tokens - num_before;
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
    text += "; first in rank: sequence " + std::to_string(static_cast<std::int64_t>(first->id)) +
            " with " + std::to_string(first->num_computed) + " of " +
            std::to_string(first->num_known) + " tokens computed";
  }
  return text;
}

void Scheduler::check_invariants() const {
  std::vector<const kv::PageTable*> tables;
  std::int64_t num_to_come = 0;
  for (const auto& [id, sequence] : sequences_) {
    tables.push_back(&sequence->table);
    num_to_come += sequence->max_tokens - sequence->table.num_tokens();
  }
  kv::check_pages(pool_, tables);
  CAPTION_CHECK(num_to_come == num_tokens_to_come_,
                "scheduler: the count of tokens to come is off");
  CAPTION_CHECK(num_running() + num_waiting() == num_unfinished(),
                "scheduler: a sequence is neither running nor waiting, or both");
  CAPTION_CHECK(num_running() <= options_.max_num_seqs, "scheduler: too many sequences run");
  CAPTION_CHECK(std::is_sorted(running_.begin(), running_.end(), RankLess{}),
                "scheduler: the running sequences are out of rank");
  for (const Sequence* sequence : waiting_) {
    CAPTION_CHECK(sequence->table.pages().empty(), "scheduler: a waiting sequence holds pages");
  }
}

}  // namespace caption::scheduler
