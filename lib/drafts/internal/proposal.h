// drafts/internal/proposal.h: what is proposed for a sequence, and how well earlier proposals did.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "drafts/acceptance.h"
#include "drafts/draft_counts.h"
#include "drafts/draft_source.h"
#include "drafts/internal/few_texts.h"
#include "drafts/internal/followed_guesses.h"
#include "drafts/nearest_texts.h"
#include "drafts/token_archive.h"

namespace caption::drafts {

struct Proposal {
  std::uint64_t topic = 0;
  std::optional<Sketch> look;
  // The texts that were nearest at the first proposal; `nearest` is set from then on.
  std::vector<NearestTexts::Found> found;
  std::optional<FewTexts> nearest;
  std::vector<Guess> guesses;
  GuessSource source = GuessSource::kArchive;
  FollowedGuesses of_archive;
  std::int64_t num_computed = 0;  // drafts in the latest step that had any
  // How many of the drafts with an outcome were expected to be right, and how many were right.
  double expected = 0;
  double right = 0;
  DraftCounts counts;

  // How often the sequence's own guesses were right, in terms of what was expected.
  double trust() const;
};

// Keyed by DraftQuery::sequence.
using Proposals = std::unordered_map<std::int64_t, Proposal>;

inline std::span<const std::int32_t> output_of(const DraftQuery& query) {
  return query.tokens.subspan(static_cast<std::size_t>(query.num_prompt));
}

// The probability that a guess for the proposal's sequence is right when those before it are.
double probability(const Acceptance& acceptance, GuessSource source, const Guess& guess,
                   const Proposal& proposal);
// The expected number of right ones among the guesses.
double expected_right(const Acceptance& acceptance, GuessSource source,
                      std::span<const Guess> guesses, const Proposal& proposal);

// Learns that of the first num_computed guesses of the proposal, the first num_accepted were right,
// and the next one was wrong if `was_refused`.
void observe_outcome(std::int64_t num_computed, std::int64_t num_accepted, bool was_refused,
                     Acceptance& acceptance, Proposal& proposal);

}  // namespace caption::drafts
