// drafts/draft_counts.h: what drafts did.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "drafts/acceptance.h"

namespace caption::drafts {

// Counted per source; Acceptance's indices.
struct DraftCounts {
  std::array<std::int64_t, kNumGuessSources> computed{};
  std::array<std::int64_t, kNumGuessSources> accepted{};
  std::int64_t further_tokens = 0;  // chosen in a step besides its first one, for each sequence

  DraftCounts& operator+=(const DraftCounts& other) {
    for (std::size_t i = 0; i < computed.size(); ++i) {
      computed[i] += other.computed[i];
      accepted[i] += other.accepted[i];
    }
    further_tokens += other.further_tokens;
    return *this;
  }
};

// Totals of the steps in which a sequence could have drafts.
struct DraftedSteps {
  std::int64_t all = 0;
  std::int64_t with_drafts = 0;
  // What the further tokens would have cost in steps without drafts, less what the drafts added to
  // the steps, both by the measured costs of steps (StepCosts).
  double saved_us = 0;

  DraftedSteps& operator+=(const DraftedSteps& other) {
    all += other.all;
    with_drafts += other.with_drafts;
    saved_us += other.saved_us;
    return *this;
  }
};

}  // namespace caption::drafts
