// text/vocabulary_match.h: writes tokens of one tokenizer with those of another.
//
// Two vocabularies have many tokens of the same bytes, and each writes the tokens that it lacks
// with several shorter ones, so that a model reads what another one wrote, and its own tokens count
// where the other one has them. Compare: Timor et al., arXiv:2502.05202 (token-level intersection).
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace caption::text {

// How one vocabulary is written with another one. Any number of threads may read it.
class VocabularyMatch {
 public:
  // The match of a vocabulary of this size with itself.
  static VocabularyMatch identity(std::int64_t vocab_size);

  // The ids of the other vocabulary that write a token: its own counterpart, or several that have
  // its bytes together; empty where there are none. For any id.
  std::span<const TokenId> to_other(TokenId id) const;
  // The token that is the same as one of the other vocabulary, or -1. For any id.
  TokenId from_other(TokenId id) const;

  // Numbers of the tokens that have bytes: those with a counterpart, those that several tokens
  // write, and those that none write.
  std::int64_t num_same() const { return num_same_; }
  std::int64_t num_spelled() const { return num_spelled_; }
  std::int64_t num_lost() const { return num_lost_; }

 private:
  friend VocabularyMatch match_vocabularies(const Tokenizer& one, std::span<const TokenId> ends,
                                            const Tokenizer& other,
                                            std::span<const TokenId> other_ends);

  std::vector<TokenId> from_other_;  // indexed by id of the other vocabulary
  // to_other_[begin_[id]] to to_other_[begin_[id + 1]] write the token.
  std::vector<TokenId> to_other_;
  std::vector<std::size_t> begin_ = {0};
  std::int64_t num_same_ = 0;
  std::int64_t num_spelled_ = 0;
  std::int64_t num_lost_ = 0;
};

inline VocabularyMatch VocabularyMatch::identity(std::int64_t vocab_size) {
  VocabularyMatch match;
  match.from_other_.resize(static_cast<std::size_t>(vocab_size));
  std::iota(match.from_other_.begin(), match.from_other_.end(), 0);
  match.to_other_ = match.from_other_;
  match.begin_.resize(match.from_other_.size() + 1);
  std::iota(match.begin_.begin(), match.begin_.end(), std::size_t{0});
  match.num_same_ = vocab_size;
  return match;
}

inline std::span<const TokenId> VocabularyMatch::to_other(TokenId id) const {
  const auto index = static_cast<std::size_t>(id);
  if (id < 0 || index + 1 >= begin_.size()) return {};
  return std::span(to_other_).subspan(begin_[index], begin_[index + 1] - begin_[index]);
}

inline TokenId VocabularyMatch::from_other(TokenId id) const {
  const auto index = static_cast<std::size_t>(id);
  return id >= 0 && index < from_other_.size() ? from_other_[index] : -1;
}

// Tokens are the same that contribute the same bytes to a text (Tokenizer::token_bytes()). Tokens
// without bytes, the special ones, have no counterpart but those that end a text: `ends` match
// `other_ends`. Where several tokens have the same bytes, that of the same id is the counterpart,
// otherwise the first one. A token without one is written with the longest tokens that its bytes
// begin with, one after the other. Throws Error(kUsage) when no token with bytes has a counterpart.
VocabularyMatch match_vocabularies(const Tokenizer& one, std::span<const TokenId> ends,
                                   const Tokenizer& other, std::span<const TokenId> other_ends);

}  // namespace caption::text
