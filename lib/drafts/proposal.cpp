#include "drafts/internal/proposal.h"

#include <algorithm>

namespace caption::drafts {
namespace {

// The estimate of a sequence's own acceptance starts as if so many drafts had been as expected.
constexpr double kPriorDrafts = 12;

}  // namespace

double Proposal::trust() const { return (right + kPriorDrafts) / (expected + kPriorDrafts); }

double probability(const Acceptance& acceptance, GuessSource source, const Guess& guess,
                   const Proposal& proposal) {
  return std::min(0.99, proposal.trust() * acceptance.probability(source, guess));
}

double expected_right(const Acceptance& acceptance, GuessSource source,
                      std::span<const Guess> guesses, const Proposal& proposal) {
  double all_right = 1;
  double expected = 0;
  for (const Guess& guess : guesses) {
    all_right *= probability(acceptance, source, guess, proposal);
    expected += all_right;
  }
  return expected;
}

void observe_outcome(std::int64_t num_computed, std::int64_t num_accepted, bool was_refused,
                     Acceptance& acceptance, Proposal& proposal) {
  const std::int64_t num_known =
      num_accepted + (was_refused && num_accepted < num_computed ? 1 : 0);
  for (std::int64_t i = 0; i < num_known; ++i) {
    const Guess& guess = proposal.guesses[static_cast<std::size_t>(i)];
    const bool is_right = i < num_accepted;
    proposal.expected += acceptance.probability(proposal.source, guess);
    proposal.right += is_right ? 1 : 0;
    acceptance.observe(proposal.source, guess, is_right);
  }
}

}  // namespace caption::drafts
