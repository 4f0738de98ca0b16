// drafts/acceptance.h: how often drafts with equal evidence were right.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "drafts/token_archive.h"

namespace caption::drafts {

enum class GuessSource { kArchive, kRepetition, kNearest, kModel, kCopy, kSelf };
inline constexpr int kNumGuessSources = 6;
// "archive", "ngram", "nearest", "model", "copy", "self"
std::string_view guess_source_name(GuessSource source);

// Estimates, from the outcomes of earlier drafts, the probability that a guess is right when those
// before it are. Guesses are counted together that have the same source and similar lengths of
// match, shares of the texts and numbers of texts. Not thread-safe.
class Acceptance {
 public:
  // In (0, 1): the mean of the outcomes and, so that a few bad ones do not end the drafts from
  // which it would learn better, up to a standard error more. Before there are outcomes the mean is
  // the share of the texts, less for short matches.
  double probability(GuessSource source, const Guess& guess) const;
  void observe(GuessSource source, const Guess& guess, bool is_right);

 private:
  static constexpr std::size_t kLengths = 7;
  static constexpr std::size_t kShares = 5;
  static constexpr std::size_t kTotals = 3;
  struct Outcomes {
    double right = 0;
    double all = 0;
  };

  static std::size_t bin(GuessSource source, const Guess& guess);

  std::array<Outcomes, kNumGuessSources * kLengths * kShares * kTotals> bins_{};
};

}  // namespace caption::drafts
