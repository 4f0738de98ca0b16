// text/vocabulary_match.h: which ids of two tokenizers are the same token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace caption::text {

// Ids of the other vocabulary, and back; -1 where the other one has no such token.
struct VocabularyMatch {
  std::vector<TokenId> to_other;    // by id of the one
  std::vector<TokenId> from_other;  // by id of the other
};

// Tokens are the same that contribute the same bytes to a text (Tokenizer::token_bytes()). Tokens
// without bytes, the special ones, have no match but those that end a text: `ends` match
// `other_ends`. Of several tokens with the same bytes that of the same id is the match, otherwise
// the first one. Throws Error(kUsage), with an example, when the other vocabulary lacks a token
// that has bytes.
VocabularyMatch match_vocabularies(const Tokenizer& one, std::span<const TokenId> ends,
                                   const Tokenizer& other, std::span<const TokenId> other_ends);

}  // namespace caption::text
