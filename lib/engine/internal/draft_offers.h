// engine/internal/draft_offers.h: the drafts that the source offers for the next step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "drafts/draft_source.h"
#include "engine/internal/sequence.h"
#include "engine/options.h"
#include "scheduler/scheduler.h"

namespace caption::engine {

// Reuses its array from step to step.
class DraftOffers {
 public:
  // Ids of drafts from the first one outside [0, vocab) on are left out.
  DraftOffers(const EngineOptions& options, std::int64_t vocab);

  // Sets Sequence::drafts of all sequences and tells the scheduler how many there are. Does nothing
  // without a source.
  void offer(Sequences& sequences, scheduler::Scheduler& scheduler);
  // Tells the source that the sequence has ended (DraftSource::end()).
  void end(const Sequence& sequence, std::span<const std::int32_t> output);
  // Tells the source what the step took, and the source itself since offer().
  void observe_step(std::int64_t num_tokens, std::int64_t us);

 private:
  // Adds a query if the sequence can take drafts, of which there are at most `most`.
  void ask(Sequence& sequence, std::int64_t most);
  void take(scheduler::Scheduler& scheduler);
  // Calls ask(), which asks the source, and adds its time to `us`.
  template <class Ask>
  void time(double& us, const Ask& ask);

  drafts::DraftSource* const source_;
  const std::int64_t max_drafts_;
  const std::int64_t max_copied_tokens_;
  const std::int64_t vocab_;
  std::vector<drafts::DraftQuery> queries_;
  double proposing_us_ = 0;
  double ending_us_ = 0;
};

}  // namespace caption::engine
