// drafts/internal/followed_guesses.h: guesses that an output went on with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "drafts/token_archive.h"

namespace caption::drafts {

// The latest guesses after an output. Once it has gone on with the first of them, the others are
// what the archive has after the longest context, since that context is longer now by the tokens
// that were guessed: no look-up is needed.
class FollowedGuesses {
 public:
  // The guesses after an output of `length` tokens.
  void set(std::size_t length, std::span<const Guess> guesses) {
    length_ = length;
    guesses_.assign(guesses.begin(), guesses.end());
  }
  // Those after `output`; none if it did not go on with guesses, or with all of them.
  std::span<const Guess> after(std::span<const std::int32_t> output) const {
    if (output.size() <= length_ || output.size() - length_ >= guesses_.size()) return {};
    const auto has_token = [](std::int32_t token, const Guess& guess) {
      return token == guess.token;
    };
    const std::span<const std::int32_t> added = output.subspan(length_);
    if (!std::equal(added.begin(), added.end(), guesses_.begin(), has_token)) return {};
    return std::span(guesses_).subspan(added.size());
  }

 private:
  std::size_t length_ = 0;
  std::vector<Guess> guesses_;
};

}  // namespace caption::drafts
