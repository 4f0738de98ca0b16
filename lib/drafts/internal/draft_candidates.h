// drafts/internal/draft_candidates.h: which guesses a step computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "drafts/acceptance.h"
#include "drafts/internal/proposal.h"
#include "drafts/internal/step_savings.h"
#include "drafts/step_costs.h"

namespace caption::drafts {

// A guess that may be added to a step.
struct Candidate {
  double probability = 0;  // that it and those before it are right
  std::size_t query = 0;
};

// Candidates gain at least this share of a step's time, or are not tried.
inline constexpr double kLeastGain = 0.02;

// Appends the guesses for queries[query], up to the first that is right with less than
// least_probability.
void append_candidates(std::size_t query, const Proposal& proposal, const Acceptance& acceptance,
                       double least_probability, std::vector<Candidate>& candidates);
// Puts the likeliest first, those of one query in their order.
void sort_candidates(std::span<Candidate> candidates);

// How many of the sorted candidates save the most time in a step of `size` tokens besides them,
// when a token is worth `us_per_token`.
std::size_t most_saving(std::span<const Candidate> candidates, std::int64_t size,
                        double us_per_token, const StepCosts& costs);
// How many of the sorted candidates pay in a step that decodes num_sequences, computes
// num_prompt_tokens besides, and for which the draft model's passes took passes_us.
std::size_t most_paying(std::span<const Candidate> candidates, std::int64_t num_sequences,
                        std::int64_t num_prompt_tokens, double passes_us,
                        const StepSavings& savings);

}  // namespace caption::drafts
