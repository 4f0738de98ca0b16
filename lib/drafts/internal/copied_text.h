// drafts/internal/copied_text.h: the text of the nearest thing as guesses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "drafts/nearest_texts.h"
#include "drafts/token_archive.h"

namespace caption::drafts {

// Replaces `guesses` by at most `most` tokens that the first of the texts has after `output`, if it
// begins so; otherwise by none. The evidence of a token is how many of the texts that have the
// tokens before it have it, too.
void guess_copy(std::span<const std::int32_t> output, std::int64_t most,
                std::span<const NearestTexts::Found> texts, std::vector<Guess>& guesses);

}  // namespace caption::drafts
