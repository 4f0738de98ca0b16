// text/internal/added_tokens.h: tokens that are cut out of a text before the model sees it.
// Source: models.md §6.1; the added vocabulary of Hugging Face tokenizers 0.22.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace caption::text {

struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool is_special = false;      // left out by decode()
  bool is_normalized = false;   // looked for in the normalised text, after all others
  bool strips_left = false;     // swallows the whitespace before it
  bool strips_right = false;    // and after it
  bool is_single_word = false;  // only between characters that are no word characters
};

// A stretch of a text: a token's, or (token null) one for the model. Never empty.
struct Segment {
  std::string_view text;
  const AddedToken* token = nullptr;
};

// Finds tokens leftmost, and of those at one place the longest.
class AddedTokenMatcher {
 public:
  // `pattern` is the token's content, normalised where it is looked for in normalised text. Of two
  // equal patterns the first counts. Empty ones are ignored.
  void add(std::string pattern, const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  // The segments cover `text` (valid UTF-8) in order; they borrow from it and from the matcher.
  std::vector<Segment> split(std::string_view text) const;

 private:
  const AddedToken* match_at(std::string_view text, std::size_t pos, std::size_t* length) const;

  std::map<std::string, AddedToken, std::less<>> tokens_;  // by pattern
  std::set<std::size_t, std::greater<>> lengths_;          // of the patterns, longest first
  bool starts_[256] = {};                                  // first bytes of the patterns
};

}  // namespace caption::text
