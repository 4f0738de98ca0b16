// drafts/draft_model.h: the interface to a model that guesses the next tokens: a second, smaller
// one, or a part of the target itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "drafts/acceptance.h"
#include "drafts/draft_source.h"
#include "drafts/token_archive.h"

namespace caption::drafts {

// A sequence for which the model guesses one more token.
struct ModelQuery {
  std::int64_t sequence = 0;                     // DraftQuery::sequence
  std::span<const std::int32_t> output = {};     // the tokens chosen so far, without the prompt
  std::span<const std::int32_t> followers = {};  // guesses after them, of earlier passes
};

// How a model fills a Guess: `token` is the one that it would choose, count / total about the
// probability of that token in its own softmax, with kModelTotal as `total`, and match_length is
// kModelMatch.
inline constexpr std::int32_t kModelMatch = 24;
inline constexpr std::int32_t kModelTotal = 64;
inline constexpr std::int32_t kNoGuess = -1;  // Guess::token of a sequence without a guess

// Used by one thread at a time.
class DraftModel {
 public:
  virtual ~DraftModel() = default;
  // What the guesses are counted as.
  virtual GuessSource source() const { return GuessSource::kModel; }
  // Called before the guesses of a step. `queries` are all sequences that can have drafts. With
  // may_compute it may compute what later guesses need; returns the microseconds that this took.
  virtual std::int64_t prepare(std::span<const DraftQuery> /*queries*/, bool /*may_compute*/) {
    return 0;
  }
  // The time of a pass divided by that of a step of the same number of tokens, about: the ratio of
  // the bytes of weights, or the least that it can be while that is not known. Used until passes
  // were measured; may change in prepare().
  virtual double relative_cost() const = 0;
  // The tokens that a pass must compute for the guess after `output`, at least 1; 0 for a sequence
  // that the model cannot guess for.
  virtual std::int64_t num_missing(std::int64_t sequence,
                                   std::span<const std::int32_t> output) const = 0;
  // Computes one pass. guesses[i] receives the token after those of queries[i], or kNoGuess.
  // Returns the number of tokens that were computed and the time they took.
  virtual StepLoad guess(std::span<const ModelQuery> queries, std::span<Guess> guesses) = 0;
  // The sequence has ended.
  virtual void end(std::int64_t sequence) = 0;
};

}  // namespace caption::drafts
