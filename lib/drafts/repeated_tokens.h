// drafts/repeated_tokens.h: drafts from the sequence itself: what followed the last occurrence of
// its last tokens. Source: Saxena, prompt lookup decoding, 2023
// (github.com/apoorvumang/prompt-lookup-decoding).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "drafts/token_archive.h"

namespace caption::drafts {

// Replaces `guesses` by at most `most` tokens: those after the earlier place in the last 2,048
// tokens, of several the last, before which the most tokens, 2 to 24, equal the last ones. Empty
// when there is none.
void guess_repetition(std::span<const std::int32_t> tokens, std::int64_t most,
                      std::vector<Guess>& guesses);

}  // namespace caption::drafts
