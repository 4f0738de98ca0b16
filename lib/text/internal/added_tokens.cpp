#include "text/internal/added_tokens.h"

#include <algorithm>
#include <cstdint>

#include "base/utf8.h"

namespace caption::text {
namespace {

bool is_between(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

// The Unicode property White_Space.
bool is_space(char32_t c) {
  return is_between(c, 0x09, 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         is_between(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

// Approximates the reference's \w without Unicode tables: beyond ASCII, every character counts as a
// letter except spaces and the blocks of punctuation, symbols and emoji.
bool is_word_char(char32_t c) {
  if (c < 0x80) {
    return is_between(c, '0', '9') || is_between(c, 'A', 'Z') || is_between(c, 'a', 'z') ||
           c == '_';
  }
  if (is_space(c)) return false;
  if (c < 0xC0) return c == 0xAA || c == 0xB5 || c == 0xBA;
  return c != 0xD7 && c != 0xF7 && !is_between(c, 0x2010, 0x203E) &&
         !is_between(c, 0x2190, 0x245F) && !is_between(c, 0x2500, 0x2BFF) &&
         !is_between(c, 0x3001, 0x3004) && !is_between(c, 0x3008, 0x3020) &&
         !is_between(c, 0xFF01, 0xFF0F) && !is_between(c, 0x1F000, 0x1FAFF);
}

// The first character of a non-empty valid text; sets `length` to its number of bytes.
char32_t first_char(std::string_view text, std::size_t* length) {
  std::size_t end = 1;
  while (end < text.size() && (static_cast<std::uint8_t>(text[end]) & 0xC0u) == 0x80u) ++end;
  *length = end;
  return decode_utf8_lossy(text.substr(0, end)).front();
}

char32_t last_char(std::string_view text, std::size_t* length) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<std::uint8_t>(text[begin]) & 0xC0u) == 0x80u) --begin;
  *length = text.size() - begin;
  return decode_utf8_lossy(text.substr(begin)).front();
}

std::size_t leading_space_bytes(std::string_view text) {
  std::size_t total = 0;
  std::size_t length = 0;
  while (total < text.size() && is_space(first_char(text.substr(total), &length))) total += length;
  return total;
}

std::size_t trailing_space_bytes(std::string_view text) {
  std::size_t total = 0;
  std::size_t length = 0;
  while (total < text.size() && is_space(last_char(text.substr(0, text.size() - total), &length))) {
    total += length;
  }
  return total;
}

bool stands_alone(std::string_view before, std::string_view after) {
  std::size_t length = 0;
  return (before.empty() || !is_word_char(last_char(before, &length))) &&
         (after.empty() || !is_word_char(first_char(after, &length)));
}

}  // namespace

void AddedTokenMatcher::add(std::string pattern, const AddedToken& token) {
  if (pattern.empty()) return;
  starts_[static_cast<std::uint8_t>(pattern.front())] = true;
  lengths_.insert(pattern.size());
  tokens_.emplace(std::move(pattern), token);
}

const AddedToken* AddedTokenMatcher::match_at(std::string_view text, std::size_t pos,
                                              std::size_t* length) const {
  if (!starts_[static_cast<std::uint8_t>(text[pos])]) return nullptr;
  for (const std::size_t candidate : lengths_) {
    if (candidate > text.size() - pos) continue;
    const auto it = tokens_.find(text.substr(pos, candidate));
    if (it != tokens_.end()) {
      *length = candidate;
      return &it->second;
    }
  }
  return nullptr;
}

std::vector<Segment> AddedTokenMatcher::split(std::string_view text) const {
  std::vector<Segment> segments;
  std::size_t done = 0;  // everything before this position is in a segment
  for (std::size_t pos = 0; pos < text.size();) {
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
    if (begin > done) segments.push_back({text.substr(done, begin - done), nullptr});
    segments.push_back({text.substr(begin, end - begin), token});
    done = end;
    pos = end;
  }
  if (done < text.size()) segments.push_back({text.substr(done), nullptr});
  return segments;
}

}  // namespace caption::text
