#include "text/internal/added_tokens.h"

#include <algorithm>
#include <cstdint>

#include "base/utf8.h"
#include "text/internal/characters.h"

namespace caption::text {
namespace {

// The last character of a non-empty valid text; sets `length` to its number of bytes.
char32_t last_character(std::string_view text, std::size_t* length) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<std::uint8_t>(text[begin]) & 0xC0u) == 0x80u) --begin;
  return character_at(text, begin, length);
}

bool stands_alone(std::string_view before, std::string_view after) {
  std::size_t length = 0;
  return (before.empty() || !is_word_character(last_character(before, &length))) &&
         (after.empty() || !is_word_character(character_at(after, 0, &length)));
}

}  // namespace

void AddedTokenMatcher::add(std::string_view pattern, const AddedToken& token) {
  if (pattern.empty()) return;
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(pattern[i]);
    const PairTable::Value* found = trie_.find(node, byte);
    PairTable::Value child =
        found == nullptr ? PairTable::Value{.first = num_nodes_++, .second = 0} : *found;
    if (i + 1 == pattern.size()) {
      if (child.second != 0) return;
      child.second = static_cast<std::uint32_t>(tokens_.size()) + 1;
    }
    trie_.set(node, byte, child);
    node = child.first;
  }
  starts_[static_cast<std::uint8_t>(pattern.front())] = true;
  tokens_.push_back(token);
}

const AddedToken* AddedTokenMatcher::match_at(std::string_view text, std::size_t pos,
                                              std::size_t* length) const {
  const AddedToken* longest = nullptr;
  std::uint32_t node = 0;
  for (std::size_t end = pos; end < text.size();) {
    const PairTable::Value* found = trie_.find(node, static_cast<std::uint8_t>(text[end]));
    if (found == nullptr) break;
    ++end;
    node = found->first;
    if (found->second == 0) continue;
    longest = &tokens_[found->second - 1];
    *length = end - pos;
  }
  return longest;
}

std::vector<Segment> AddedTokenMatcher::split(std::string_view text) const {
  std::vector<Segment> segments;
  std::size_t done = 0;  // everything before this position is in a segment
  for (std::size_t pos = 0; !tokens_.empty() && pos < text.size();) {
    if (!starts_[static_cast<std::uint8_t>(text[pos])]) {
      ++pos;
      continue;
    }
    std::size_t length = 0;
    const AddedToken* token = match_at(text, pos, &length);
    if (token == nullptr) {
      ++pos;
      continue;
    }
    std::size_t begin = pos;
    std::size_t end = pos + length;
    pos = end;
    if (token->is_single_word && !stands_alone(text.substr(0, begin), text.substr(end))) continue;
    if (token->strips_left) {
      begin = std::max(done, begin - trailing_space_bytes(text.substr(0, begin)));
    }
    if (token->strips_right) end += leading_space_bytes(text.substr(end));
    if (begin >= end) continue;  // inside the whitespace of the token before it
    if (begin > done) segments.push_back({text.substr(done, begin - done), nullptr});
    segments.push_back({text.substr(begin, end - begin), token});
    done = end;
  }
  if (done < text.size()) segments.push_back({text.substr(done), nullptr});
  return segments;
}

}  // namespace caption::text
