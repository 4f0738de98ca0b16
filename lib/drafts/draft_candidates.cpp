#include "drafts/internal/draft_candidates.h"

#include <algorithm>

namespace caption::drafts {
namespace {

constexpr int kRounds = 4;  // Dinkelbach's method is then within rounding of its limit

}  // namespace

void append_candidates(std::size_t query, const Proposal& proposal, const Acceptance& acceptance,
                       double least_probability, std::vector<Candidate>& candidates) {
  double all_right = 1;
  for (const Guess& guess : proposal.guesses) {
    all_right *= probability(acceptance, proposal.source, guess, proposal);
    if (all_right < least_probability) return;
    candidates.push_back({.probability = all_right, .query = query});
  }
}

// A guess has at most the probability of the one before it, so a stable order keeps chains.
void sort_candidates(std::span<Candidate> candidates) {
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.probability > b.probability; });
}

std::size_t most_saving(std::span<const Candidate> candidates, std::int64_t size,
                        double us_per_token, const StepCosts& costs) {
  const double plain_us = costs.us(size);
  double expected = 0;
  double most_saved_us = kLeastGain * plain_us;
  std::size_t best = 0;
  for (std::size_t count = 1; count <= candidates.size(); ++count) {
    expected += candidates[count - 1].probability;
    const double more_us = costs.us(size + static_cast<std::int64_t>(count)) - plain_us;
    const double saved_us = expected * us_per_token - more_us;
    if (saved_us <= most_saved_us) continue;
    most_saved_us = saved_us;
    best = count;
  }
  return best;
}

// The least time per token is found by Dinkelbach's method (Management Science 1967).
std::size_t most_paying(std::span<const Candidate> candidates, std::int64_t num_sequences,
                        std::int64_t num_prompt_tokens, double passes_us,
                        const StepSavings& savings) {
  const auto tokens = static_cast<double>(num_sequences);
  const StepCosts& costs = savings.costs_of(StepKind::kDecoding);
  double us_per_token = (passes_us + costs.us(num_sequences)) / tokens;
  std::size_t count = 0;
  for (int round = 0; round < kRounds; ++round) {
    count = most_saving(candidates, num_sequences, us_per_token, costs);
    double expected = 0;
    for (const Candidate& candidate : candidates.first(count)) expected += candidate.probability;
    us_per_token = (passes_us + costs.us(num_sequences + static_cast<std::int64_t>(count))) /
                   (tokens + expected);
  }
  if (num_prompt_tokens == 0) return count;
  return most_saving(candidates, num_sequences + num_prompt_tokens, us_per_token,
                     savings.costs_of(StepKind::kWithPrompts));
}

}  // namespace caption::drafts
