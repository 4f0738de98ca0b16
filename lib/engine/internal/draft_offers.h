// engine/internal/draft_offers.h: the drafts that the source offers for the next step.
#pragma once

#include <cstdint>
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
  // How long the source took for that.
  double proposing_us() const { return proposing_us_; }

 private:
  // Adds a query if the sequence can take drafts, of which there are at most `most`.
  void ask(Sequence& sequence, std::int64_t most);
  void take(scheduler::Scheduler& scheduler);
  // Calls propose(), which asks the source, and adds its time.
  template <class Propose>
  void time(const Propose& propose);

  drafts::DraftSource* const source_;
  const std::int64_t max_drafts_;
  const std::int64_t max_copied_tokens_;
  const std::int64_t vocab_;
  std::vector<drafts::DraftQuery> queries_;
  double proposing_us_ = 0;
};

}  // namespace caption::engine
