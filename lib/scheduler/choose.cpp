// Scheduler: the tokens of a step.
#include <algorithm>

#include "scheduler/internal/sequence.h"
#include "scheduler/scheduler.h"

namespace caption::scheduler {

// Selects the tokens of the running sequences; allocates no pages.
void Scheduler::choose() {
  plan_.sequences.clear();
  plan_.num_tokens = 0;
  if (options_.prefill == PrefillMode::kWhole) {
    std::int64_t num_decodes = 0;
    const Sequence* first_prompt = nullptr;
    for (const Sequence* sequence : running_) {
      if (sequence->num_computable() == 1) {
        num_decodes += sequence->num_active;
      } else if (first_prompt == nullptr) {
        first_prompt = sequence;
      }
    }
    const bool fits_beside_decodes =
        first_prompt == nullptr ||
        num_decodes + first_prompt->num_computable() <= options_.max_num_batched_tokens;
    if (fits_beside_decodes) choose_decodes();
  } else {
    choose_decodes();
  }
  choose_prompts();
  choose_prompt_drafts();
}

// Tokens of the budget that no running sequence needs for its known tokens.
std::int64_t Scheduler::spare_tokens() const {
  std::int64_t spare = options_.max_num_batched_tokens;
  for (const Sequence* sequence : running_) {
    spare -= sequence->num_computable() * sequence->num_active;
  }
  return std::max<std::int64_t>(spare, 0);
}

void Scheduler::choose_decodes() {
  std::int64_t spare = std::min(spare_tokens(), options_.max_drafts_per_step);
  for (const Sequence* sequence : running_) {
    if (sequence->num_computable() != 1) continue;
    if (plan_.num_tokens + sequence->num_active > options_.max_num_batched_tokens) break;
    const std::int64_t num_drafts = std::min(sequence->num_drafts, spare);
    choose_tokens(*sequence, 1 + num_drafts, num_drafts);
    spare -= num_drafts;
  }
}

// Drafts after prompts use the tokens that are left when every sequence has its own.
void Scheduler::choose_prompt_drafts() {
  if (drafted_.empty()) return;
  std::int64_t spare = options_.max_drafts_per_step;
  for (const PlannedSequence& planned : plan_.sequences) spare -= planned.num_drafts;
  spare = std::min(spare, options_.max_num_batched_tokens - plan_.num_tokens);
  for (PlannedSequence& planned : plan_.sequences) {
    const Sequence& sequence = find(planned.id);
    const bool ends_prompt = planned.is_last_known && sequence.num_computable() > 1;
    if (spare <= 0 || !ends_prompt || sequence.num_drafts == 0) continue;
    planned.num_drafts = std::min(sequence.num_drafts, spare);
    planned.num_tokens += planned.num_drafts;
    plan_.num_tokens += planned.num_drafts;
    spare -= planned.num_drafts;
  }
}

// Returns whether any were offered.
bool Scheduler::drop_drafts() {
  const bool had_drafts = !drafted_.empty();
  for (Sequence* sequence : drafted_) sequence->num_drafts = 0;
  drafted_.clear();
  return had_drafts;
}

void Scheduler::choose_prompts() {
  for (const Sequence* sequence : running_) {
    const std::int64_t num_computable = sequence->num_computable();
    if (num_computable <= 1) continue;
    const std::int64_t budget = options_.max_num_batched_tokens - plan_.num_tokens;
    if (options_.prefill == PrefillMode::kChunked) {
      if (budget == 0) break;
      choose_tokens(*sequence, std::min(num_computable, budget));
    } else {
      if (num_computable > budget && !plan_.sequences.empty()) break;
      choose_tokens(*sequence, num_computable);
    }
  }
}

void Scheduler::choose_tokens(const Sequence& sequence, std::int64_t num_tokens,
                              std::int64_t num_drafts) {
  for (std::int32_t branch = 0; branch < sequence.num_active; ++branch) {
    plan_.sequences.push_back(
        {.id = sequence.spec.id,
         .branch = branch,
         .first_token = sequence.num_computed,
         .num_tokens = num_tokens,
         .num_saved = sequence.num_saved,
         .num_drafts = num_drafts,
         .is_last_known = num_tokens - num_drafts == sequence.num_remaining()});
    plan_.num_tokens += num_tokens;
  }
}

// Number of pages that the selected tokens need in excess of the free ones.
std::int64_t Scheduler::pages_short() const {
  std::int64_t num_needed = 0;
  for (const PlannedSequence& planned : plan_.sequences) {
    const Sequence& sequence = find(planned.id);
    const auto branch = sequence.branches.begin() + planned.branch;
    num_needed += branch->pages_to_append(planned.num_tokens);
    // The last one of the branches that write to the same page needs no copy.
    const auto open = branch->open_page();
    const bool is_first_of_sharers =
        open.has_value() && pool_.is_shared(*open) && !pool_.is_published(*open) &&
        std::none_of(sequence.branches.begin(), branch,
                     [&](const kv::PageTable& table) { return table.open_page() == open; });
    if (is_first_of_sharers) --num_needed;
  }
  return num_needed - pool_.num_free();
}

}  // namespace caption::scheduler
