// drafts/internal/guess_search.h: searches the archive, the texts of the nearest things and the
// sequence itself for guesses, which needs no model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "drafts/drafter.h"
#include "drafts/internal/proposal.h"

namespace caption::drafts {

class GuessSearch {
 public:
  // `acceptance` is borrowed; `archive` and `nearest` as Drafter's.
  GuessSearch(const DrafterOptions& options, std::shared_ptr<TokenArchive> archive,
              std::shared_ptr<NearestTexts> nearest, const Acceptance& acceptance);

  // Sets the look of the thing that the proposal's sequence is about.
  void begin(std::uint64_t topic, const Sketch& look, Proposal& proposal) const;
  // Replaces the proposal's guesses by those of the source whose first one is likeliest right. The
  // proposal has none where no source has any.
  void find(const DraftQuery& query, Proposal& proposal);
  // After find(): replaces them by what the nearest text has after the output, if it begins so and
  // at least as many of its tokens are expected to be right, or if the number of drafts is not
  // adaptive.
  void find_copy(const DraftQuery& query, Proposal& proposal);
  // The sequence has ended: keeps its output.
  void end(const Proposal* proposal, std::span<const std::int32_t> output);

 private:
  // Puts guesses_ in the place of the proposal's if their first one is likelier right.
  void consider(GuessSource source, Proposal& proposal);
  void find_nearest(Proposal& proposal) const;
  // Replaces guesses_ by those after the longest context that the archive knows or after a shorter
  // one that more texts have, whichever are expected to be right more often; or by the rest of the
  // guesses before, if the output went on with them and the rest is longer than the drafts of the
  // step before.
  void guess_from_archive(std::span<const std::int32_t> output, std::int64_t most,
                          Proposal& proposal);

  const DrafterOptions options_;
  const std::shared_ptr<TokenArchive> archive_;
  const std::shared_ptr<NearestTexts> nearest_;
  const Acceptance& acceptance_;
  std::vector<Guess> guesses_;
  std::vector<Guess> frequent_guesses_;
};

}  // namespace caption::drafts
