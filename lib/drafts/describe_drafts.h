// drafts/describe_drafts.h: what drafts did, in words.
#pragma once

#include <cstdint>
#include <string>

#include "drafts/drafter.h"

namespace caption::drafts {

// Returns text such as "archive: 199 of 250 right, 1.99 per step; in 75.0 % of the engine's steps,
// which saved about 1.23 s": each source that gave drafts, beside `num_steps`, the steps of all
// sequences that gave tokens, then the steps with drafts. Empty without drafts.
std::string describe_drafts(const DraftCounts& counts, const DraftedSteps& steps,
                            std::int64_t num_steps);

}  // namespace caption::drafts
