#include "engine/internal/draft_offers.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "base/error.h"

namespace caption::engine {

DraftOffers::DraftOffers(const EngineOptions& options, std::int64_t vocab)
    : source_(options.draft_source),
      max_drafts_(options.max_drafts),
      max_copied_tokens_(options.max_copied_tokens),
      vocab_(vocab) {}

void DraftOffers::ask(Sequence& sequence, std::int64_t most) {
  const std::int64_t left = sequence.sampling.max_new_tokens - std::ssize(sequence.output()) - 1;
  most = std::min(most, left);
  if (most < 1) return;
  queries_.push_back({.sequence = static_cast<std::int64_t>(sequence.id),
                      .tokens = sequence.tokens,
                      .num_prompt = sequence.num_prompt,
                      .most = most,
                      .drafts = &sequence.drafts});
}

void DraftOffers::take(scheduler::Scheduler& scheduler) {
  for (const drafts::DraftQuery& query : queries_) {
    std::vector<std::int32_t>& drafts = *query.drafts;
    CAPTION_CHECK(std::ssize(drafts) <= query.most, "engine: more drafts than were asked for");
    const auto end = std::find_if(drafts.begin(), drafts.end(),
                                  [&](std::int32_t draft) { return draft < 0 || draft >= vocab_; });
    drafts.erase(end, drafts.end());
    scheduler.propose(scheduler::SequenceId{query.sequence}, std::ssize(drafts));
  }
  queries_.clear();
}

template <class Ask>
void DraftOffers::time(double& us, const Ask& ask) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  ask();
  us += std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

void DraftOffers::offer(Sequences& sequences, scheduler::Scheduler& scheduler) {
  if (source_ == nullptr) return;
  proposing_us_ = 0;
  ending_us_ = 0;
  std::int64_t num_decoding = 0;
  for (const auto& [id, sequence] : sequences) {
    sequence->drafts.clear();
    if (!scheduler.can_draft(to_sequence_id(id))) continue;
    ++num_decoding;
    ask(*sequence, max_drafts_);
  }
  const std::int64_t num_prompt_tokens = scheduler.most_prompt_tokens();
  if (!queries_.empty()) {
    time(proposing_us_, [&] { source_->propose(queries_, num_prompt_tokens); });
  }
  take(scheduler);
  if (max_copied_tokens_ == 0) return;
  for (const scheduler::SequenceId id : scheduler.may_end_prompt()) {
    ask(*sequences.at(to_request_id(id)), max_copied_tokens_);
  }
  if (!queries_.empty()) {
    time(proposing_us_,
         [&] { source_->propose_after_prompts(queries_, num_decoding, num_prompt_tokens); });
  }
  take(scheduler);
}

void DraftOffers::end(const Sequence& sequence, std::span<const std::int32_t> output) {
  if (source_ == nullptr) return;
  time(ending_us_, [&] { source_->end(static_cast<std::int64_t>(sequence.id), output); });
}

void DraftOffers::observe_step(std::int64_t num_tokens, std::int64_t us) {
  if (source_ == nullptr) return;
  source_->observe_step(
      {.num_tokens = num_tokens, .us = us, .proposing_us = proposing_us_, .ending_us = ending_us_});
}

}  // namespace caption::engine
