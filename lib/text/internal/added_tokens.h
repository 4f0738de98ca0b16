// text/internal/added_tokens.h: finds added tokens in a text before the rest is tokenised.
// Source: Hugging Face tokenizers 0.22, tokenizers/src/tokenizer/added_vocabulary.rs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/internal/vocabulary.h"
#include "text/tokenizer.h"

namespace caption::text {

struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool is_special = false;      // decode() leaves it out
  bool is_normalized = false;   // matched in the normalised text, after all other tokens
  bool strips_left = false;     // the match includes the whitespace before it
  bool strips_right = false;    // the match includes the whitespace after it
  bool is_single_word = false;  // matches only if neither neighbour is a word character
};

// A part of a text: an added token, or text to tokenise when `token` is null. Never empty.
struct Segment {
  std::string_view text;
  const AddedToken* token = nullptr;
};

// Splits a text at added tokens: the leftmost match first, and the longest of several at one
// position. const members are thread-safe.
class AddedTokenMatcher {
 public:
  // `pattern` is the token's content, normalised if the matcher is for normalised text. The
  // first of equal patterns counts; empty patterns are ignored.
  void add(std::string_view pattern, const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  // Returns segments that cover `text` (valid UTF-8) in order; they refer to `text` and to the
  // matcher. Where a stripping token's whitespace holds a token of whitespace, that one follows
  // with the same text, as in the reference.
  std::vector<Segment> split(std::string_view text) const;

 private:
  const AddedToken* match_at(std::string_view text, std::size_t pos, std::size_t* length) const;

  std::vector<AddedToken> tokens_;
  // A trie of the patterns: (node, byte) -> (child, index in tokens_ + 1, or 0 when no pattern ends
  // at the child). Node 0 is the root.
  PairTable trie_;
  std::uint32_t num_nodes_ = 1;
  bool starts_[256] = {};  // first bytes of the patterns
};

}  // namespace caption::text
