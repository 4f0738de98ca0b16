#include "pipeline/internal/glob.h"

#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace caption::pipeline {
namespace {

// Null where the system has none. Made once, because its files are opened and mapped for it.
locale_t utf8_locale() {
  static const locale_t locale =
      ::newlocale(LC_CTYPE_MASK, "C.UTF-8", static_cast<locale_t>(nullptr));
  return locale;
}

bool is_of_class(char32_t character, const std::string& name) {
  const locale_t locale = utf8_locale();
  if (locale == static_cast<locale_t>(nullptr)) return false;
  return ::iswctype_l(static_cast<wint_t>(character), ::wctype_l(name.c_str(), locale), locale) !=
         0;
}

// A glob behind a [, which is read up to the ] that closes it.
class BracketReader {
 public:
  BracketReader(std::u32string_view glob, std::size_t at) : glob_(glob), at_(at) {}

  // Returns whether the set has the character, or nothing where no ] closes it.
  std::optional<bool> has(char32_t character) {
    const bool is_inverse = !is_at_end() && (glob_[at_] == U'!' || glob_[at_] == U'^');
    if (is_inverse) ++at_;
    bool found = false;
    for (bool is_first = true; !is_at_end() && (is_first || glob_[at_] != U']'); is_first = false) {
      if (const std::optional<std::string> name = take_class()) {
        found = found || is_of_class(character, *name);
        continue;
      }
      const char32_t first = take_character();
      char32_t last = first;
      const bool is_range = at_ + 1 < glob_.size() && glob_[at_] == U'-' && glob_[at_ + 1] != U']';
      if (is_range) {
        ++at_;
        last = take_character();
      }
      found = found || (first <= character && character <= last);
    }
    if (is_at_end()) return std::nullopt;
    ++at_;
    return found != is_inverse;
  }
  std::size_t at() const { return at_; }

 private:
  bool is_at_end() const { return at_ >= glob_.size(); }
  char32_t take_character() {
    if (glob_[at_] == U'\\' && at_ + 1 < glob_.size()) ++at_;
    return glob_[at_++];
  }
  // Takes "[:alpha:]", if it is next, and returns "alpha".
  std::optional<std::string> take_class() {
    if (glob_.substr(at_, 2) != U"[:") return std::nullopt;
    const std::size_t end = glob_.find(U":]", at_ + 2);
    if (end == std::u32string_view::npos) return std::nullopt;
    const std::u32string_view name = glob_.substr(at_ + 2, end - at_ - 2);
    at_ = end + 2;
    return encode_utf8(name);
  }

  std::u32string_view glob_;
  std::size_t at_;
};

// Whether the element of the glob at `at`, which is no *, matches the character; moves `at` behind
// the element.
bool matches_element(std::u32string_view glob, std::size_t& at, char32_t character) {
  if (glob[at] == U'[') {
    BracketReader bracket(glob, at + 1);
    if (const std::optional<bool> is_in = bracket.has(character)) {
      at = bracket.at();
      return *is_in;
    }
  }
  if (glob[at] == U'?') {
    ++at;
    return true;
  }
  if (glob[at] == U'\\' && at + 1 < glob.size()) ++at;
  return glob[at++] == character;
}

// The elements of a glob that the text read so far may be followed by. All are pursued at once, so
// that the time is that of the glob's length times the text's, whatever they are.
class Places {
 public:
  explicit Places(std::u32string_view glob) : glob_(glob), is_in_(glob.size() + 1) { add(0, true); }

  void advance(char32_t character) {
    const std::vector<std::size_t> before = std::exchange(places_, {});
    std::fill(is_in_.begin(), is_in_.end(), false);
    for (std::size_t at : before) {
      if (at == glob_.size()) continue;
      if (glob_[at] == U'*') {
        add(at, false);
      } else if (matches_element(glob_, at, character)) {
        add(at, true);
      }
    }
  }
  bool is_empty() const { return places_.empty(); }
  bool has_end() const { return is_in_[glob_.size()]; }

 private:
  // A * may match nothing, and so may all of **/ at the beginning of a name. `is_new`: the element
  // has matched no character yet.
  void add(std::size_t at, bool is_new) {
    for (;; ++at) {
      const bool begins_name = is_new && (at == 0 || glob_[at - 1] == U'/');
      if (begins_name && glob_.substr(at, 3) == U"**/") add(at + 3, true);
      if (is_in_[at]) return;
      is_in_[at] = true;
      places_.push_back(at);
      if (at == glob_.size() || glob_[at] != U'*') return;
    }
  }

  std::u32string_view glob_;
  std::vector<bool> is_in_;
  std::vector<std::size_t> places_;
};

bool matches_characters(std::u32string_view glob, std::u32string_view text) {
  Places places(glob);
  for (const char32_t character : text) {
    if (places.is_empty()) return false;
    places.advance(character);
  }
  return places.has_end();
}

std::u32string bytes_of(std::string_view text) {
  std::u32string bytes(text.size(), U'\0');
  std::transform(text.begin(), text.end(), bytes.begin(),
                 [](char c) { return static_cast<char32_t>(static_cast<std::uint8_t>(c)); });
  return bytes;
}

}  // namespace

bool matches_glob(std::string_view glob, std::string_view text) {
  if (is_valid_utf8(glob) && is_valid_utf8(text)) {
    return matches_characters(decode_utf8_lossy(glob), decode_utf8_lossy(text));
  }
  return matches_characters(bytes_of(glob), bytes_of(text));
}

}  // namespace caption::pipeline
