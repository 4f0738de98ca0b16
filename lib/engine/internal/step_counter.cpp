#include "engine/internal/step_counter.h"

#include <algorithm>

namespace caption::engine {

void StepCounter::add_step(const scheduler::StepPlan& plan, const scheduler::Scheduler& scheduler,
                           const kv::PagePool& pool, std::int64_t compression_bytes) {
  ++sums_.steps;
  prefill_tokens_before_ = sums_.prefill_tokens;
  decode_tokens_before_ = sums_.decode_tokens;
  sums_.mean_batch += static_cast<double>(plan.sequences.size());
  const auto num_used = static_cast<double>(pool.num_used());
  sums_.mean_pages_used += num_used;
  sums_.mean_compression_bytes += static_cast<double>(compression_bytes);
  if (num_used == 0) return;  // a window of one token released the last page
  sums_.mean_page_waste += static_cast<double>(scheduler.num_empty_slots()) /
                           (num_used * static_cast<double>(kv::kPageTokens));
}

void StepCounter::add_tokens(const scheduler::PlannedSequence& planned, Sequence& sequence) {
  if (planned.branch != 0) {  // branches other than the first only decode
    sums_.decode_tokens += planned.num_tokens;
    return;
  }
  const std::int64_t num_known = planned.num_tokens - planned.num_drafts;
  const std::int64_t end = planned.first_token + num_known;
  const std::int64_t first_new = std::max(sequence.num_ever_computed, planned.first_token);
  const std::int64_t num_new = std::max<std::int64_t>(end - first_new, 0);
  sums_.recomputed_tokens += num_known - num_new;
  sums_.draft_tokens += planned.num_drafts;
  sequence.num_ever_computed = std::max(sequence.num_ever_computed, end);
  // Computing only the token chosen last counts as decoding; anything else is prefill, also the
  // recomputation of output tokens.
  const bool is_decode = num_known == 1 && planned.is_last_known &&
                         planned.first_token >= sequence.num_prompt && num_new == 1;
  (is_decode ? sums_.decode_tokens : sums_.prefill_tokens) += num_known;
}

void StepCounter::add_accepted(Sequence& sequence) {
  ++sequence.num_ever_computed;
  ++sums_.accepted_tokens;
  ++sums_.decode_tokens;
}

void StepCounter::add_busy_us(std::int64_t us) {
  sums_.busy_us += us;
  if (sums_.prefill_tokens != prefill_tokens_before_) return;
  sums_.decode_steps_us += us;
  sums_.decode_steps_tokens += sums_.decode_tokens - decode_tokens_before_;
}

EngineStats StepCounter::stats(const kv::PagePool& pool,
                               const scheduler::PrefixStats& prefix) const {
  EngineStats stats = sums_;
  if (stats.steps > 0) {
    const auto num_steps = static_cast<double>(stats.steps);
    stats.mean_batch /= num_steps;
    stats.mean_pages_used /= num_steps;
    stats.mean_page_waste /= num_steps;
    stats.mean_compression_bytes /= num_steps;
  }
  stats.pages_peak = pool.peak_used();
  stats.evicted_pages = pool.num_evicted();
  stats.prefix_lookup_tokens = prefix.lookup_tokens;
  stats.prefix_hit_tokens = prefix.hit_tokens;
  stats.host_hit_tokens = prefix.host_tokens;
  stats.disk_hit_tokens = prefix.disk_tokens;
  return stats;
}

}  // namespace caption::engine
