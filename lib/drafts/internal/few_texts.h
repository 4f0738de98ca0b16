// drafts/internal/few_texts.h: what follows a context in a few texts.
//
// Guesses as TokenArchive does, from all places of the longest known context. The texts are
// searched from end to end for each guess: a clip has so few near ones that this takes less time
// than to make an index of them for each clip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "drafts/internal/context_index.h"
#include "drafts/token_archive.h"

namespace caption::drafts {

class FewTexts {
 public:
  // All texts together have at most so many tokens, so that a search stays short.
  static constexpr std::size_t kMostTokens = 4096;

  // The more useful texts come first: one that would make them too many is ignored. Ids are >= 0.
  void add(std::span<const std::int32_t> text);
  // Replaces `guesses` by at most `most` tokens that may follow `text` (TokenArchive::guess()).
  // Looks at the first 64 places of the longest context.
  void guess(std::span<const std::int32_t> text, std::int64_t most,
             std::vector<Guess>& guesses) const;

 private:
  std::vector<std::int32_t> tokens_ = {kBegin};  // each text before a kBegin
};

}  // namespace caption::drafts
