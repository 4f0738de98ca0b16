#include "text/vocabulary_match.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/counted.h"
#include "base/error.h"

namespace caption::text {
namespace {

constexpr TokenId kNone = -1;

// Finds tokens of a vocabulary by their bytes.
class TokensByBytes {
 public:
  explicit TokensByBytes(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    by_fallback_.fill(kNone);
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
      std::string bytes = tokenizer.token_bytes(id);
      if (bytes.empty()) continue;
      longest_ = std::max(longest_, bytes.size());
      if (!tokenizer.is_byte_fallback(id)) {
        by_bytes_.emplace(std::move(bytes), id);
      } else if (TokenId& token = of_fallback(bytes.front()); token == kNone) {
        token = id;
      }
    }
  }

  // The token that contributes the same bytes as a token of another vocabulary, or kNone. A byte of
  // SentencePiece's fallback differs from the character of the same byte.
  TokenId find_same(const Tokenizer& one, TokenId id, const std::string& bytes) const {
    const bool is_fallback = one.is_byte_fallback(id);
    const bool has_id = id < tokenizer_.vocab_size() && tokenizer_.token_bytes(id) == bytes &&
                        tokenizer_.is_byte_fallback(id) == is_fallback;
    if (has_id) return id;
    return is_fallback ? of_fallback(bytes.front()) : find(bytes);
  }

  // Appends the tokens that write the bytes. Appends none, and returns false, if no tokens do.
  bool spell(std::string_view bytes, std::vector<TokenId>& to) const {
    const std::size_t size_before = to.size();
    while (!bytes.empty()) {
      std::size_t length = 0;
      const TokenId token = find_prefix(bytes, length);
      if (token == kNone) {
        to.resize(size_before);
        return false;
      }
      to.push_back(token);
      bytes.remove_prefix(length);
    }
    return true;
  }

 private:
  TokenId find(const std::string& bytes) const {
    const auto found = by_bytes_.find(bytes);
    return found == by_bytes_.end() ? kNone : found->second;
  }
  // The longest token that the bytes begin with, of so many bytes; kNone if there is none.
  TokenId find_prefix(std::string_view bytes, std::size_t& length) const {
    for (length = std::min(bytes.size(), longest_); length > 0; --length) {
      const TokenId token = find(std::string(bytes.substr(0, length)));
      if (token != kNone) return token;
    }
    length = 1;
    return of_fallback(bytes.front());
  }
  TokenId& of_fallback(char byte) { return by_fallback_[static_cast<unsigned char>(byte)]; }
  TokenId of_fallback(char byte) const { return by_fallback_[static_cast<unsigned char>(byte)]; }

  const Tokenizer& tokenizer_;
  std::unordered_map<std::string, TokenId> by_bytes_;
  std::array<TokenId, 256> by_fallback_ = {};  // SentencePiece's <0x00> to <0xFF>
  std::size_t longest_ = 0;
};

// Returns the counterpart of each id of `from` among `to`, -1 for every other id.
std::vector<TokenId> match_ends(std::span<const TokenId> from, std::span<const TokenId> to) {
  std::vector<TokenId> match;
  if (to.empty()) return match;
  for (const TokenId id : from) {
    if (id < 0) continue;
    const auto index = static_cast<std::size_t>(id);
    if (index >= match.size()) match.resize(index + 1, kNone);
    const bool has_same = std::find(to.begin(), to.end(), id) != to.end();
    match[index] = has_same ? id : to.front();
  }
  return match;
}

}  // namespace

VocabularyMatch match_vocabularies(const Tokenizer& one, std::span<const TokenId> ends,
                                   const Tokenizer& other, std::span<const TokenId> other_ends) {
  VocabularyMatch match;
  const TokensByBytes others(other);
  const std::vector<TokenId> to_ends = match_ends(ends, other_ends);
  match.from_other_ = match_ends(other_ends, ends);
  match.from_other_.resize(
      std::max(match.from_other_.size(), static_cast<std::size_t>(other.vocab_size())), kNone);
  const auto size = std::max(to_ends.size(), static_cast<std::size_t>(one.vocab_size()));
  for (std::size_t index = 0; index < size; ++index) {
    const auto id = static_cast<TokenId>(index);
    const TokenId end = index < to_ends.size() ? to_ends[index] : kNone;
    const std::string bytes = id < one.vocab_size() ? one.token_bytes(id) : std::string();
    if (end != kNone) {
      match.to_other_.push_back(end);
    } else if (!bytes.empty()) {
      const TokenId same = others.find_same(one, id, bytes);
      if (same != kNone) {
        match.to_other_.push_back(same);
        TokenId& back = match.from_other_[static_cast<std::size_t>(same)];
        if (back == kNone || same == id) back = id;
        ++match.num_same_;
      } else {
        ++(others.spell(bytes, match.to_other_) ? match.num_spelled_ : match.num_lost_);
      }
    }
    match.begin_.push_back(match.to_other_.size());
  }
  if (match.num_same_ == 0) {
    throw Error(ErrorCode::kUsage, "its vocabulary has none of the model's " +
                                       counted(one.vocab_size(), "token") +
                                       ", so that it cannot guess them");
  }
  return match;
}

}  // namespace caption::text
