#include "base/unicode_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace caption {
namespace {

// The longest decomposition (U+FDFA) has 18 characters.
constexpr std::size_t kMaxDecomposed = 32;

bool is_between(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

bool is_composing(UnicodeForm form) {
  return form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
}

bool is_compatible(UnicodeForm form) {
  return form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
}

// Characters that Unicode 12.1 or a later version added and that have a decomposition there, or
// part in one: the tables of the reference are those of Unicode 12.0, where nothing changes them.
// Later combining marks and the compositions of Todhri (Unicode 16) are left to utf8proc.
bool is_newer_than_reference(char32_t c) {
  return c == 0x32FF || is_between(c, 0xA7F1, 0xA7F4) || c == 0xAB69 || c == 0x105C9 ||
         c == 0x105E4 || is_between(c, 0x10781, 0x107BA) || is_between(c, 0x11383, 0x113C8) ||
         c == 0x11930 || c == 0x11938 || is_between(c, 0x16121, 0x16128) ||
         is_between(c, 0x16D68, 0x16D6A) || is_between(c, 0x1CCD6, 0x1CCF9) ||
         is_between(c, 0x1E030, 0x1E06D) || c == 0x1F16C || is_between(c, 0x1FBF0, 0x1FBF9);
}

// True for characters that no form changes by themselves and that never combine with what stands
// before them: a text may be normalised piece by piece between them. The list is incomplete and
// covers most of ordinary text.
bool is_stable(char32_t c, UnicodeForm form) {
  // U+11A7 stands before the first trailing consonant and is none itself; utf8proc 2.8 composes it
  // with a syllable nevertheless, as though it were empty.
  if (c < 0xA0 || c == 0x11A7) return true;
  if (is_newer_than_reference(c)) return true;
  if (!is_composing(form)) return false;
  if (is_between(c, 0xAC00, 0xD7A3) || is_between(c, 0x4E00, 0x9FFF) ||
      is_between(c, 0x3041, 0x3093) || is_between(c, 0x30A1, 0x30F3) ||
      is_between(c, 0x3001, 0x3020) || is_between(c, 0x1F300, 0x1F64F) || c == 0x200D ||
      c == 0xFE0F) {
    return true;
  }
  return form == UnicodeForm::kNfc && (c < 0x300 || is_between(c, 0x2010, 0x2027));
}

utf8proc_property_t const* property_of(utf8proc_int32_t c) { return utf8proc_get_property(c); }

// Sorts each run of combining marks by its class; marks of one class keep their order.
void order_marks(std::vector<utf8proc_int32_t>* characters) {
  const auto rank = [](utf8proc_int32_t c) { return property_of(c)->combining_class; };
  for (auto begin = characters->begin(); begin != characters->end();) {
    if (rank(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end =
        std::find_if(begin, characters->end(), [&](utf8proc_int32_t c) { return rank(c) == 0; });
    std::stable_sort(begin, end,
                     [&](utf8proc_int32_t a, utf8proc_int32_t b) { return rank(a) < rank(b); });
    begin = end;
  }
}

void append_normalized(std::string_view text, UnicodeForm form, std::string* out) {
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (is_compatible(form) ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> characters;
  std::array<utf8proc_int32_t, kMaxDecomposed> parts{};
  for (std::size_t pos = 0; pos < text.size();) {
    std::size_t length = 0;
    const char32_t c = character_at(text, pos, &length);
    pos += length;
    if (is_newer_than_reference(c)) {
      characters.push_back(static_cast<utf8proc_int32_t>(c));
      continue;
    }
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(c), parts.data(), kMaxDecomposed, options, &boundary);
    CAPTION_CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(kMaxDecomposed),
                  std::string("utf8proc: ") + utf8proc_errmsg(count));
    characters.insert(characters.end(), parts.begin(), parts.begin() + count);
  }
  order_marks(&characters);
  if (is_composing(form)) {
    const utf8proc_ssize_t count = utf8proc_normalize_utf32(
        characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    CAPTION_CHECK(count >= 0, std::string("utf8proc: ") + utf8proc_errmsg(count));
    characters.resize(static_cast<std::size_t>(count));
  }
  for (const utf8proc_int32_t c : characters) append_utf8(*out, static_cast<char32_t>(c));
}

}  // namespace

std::string_view to_unicode_form(std::string_view text, UnicodeForm form, std::string* storage) {
  storage->clear();
  std::size_t copied = 0;  // everything before it is in `storage`
  std::size_t stable = 0;  // where the last stable character begins, or the start of the text
  std::size_t length = 0;
  for (std::size_t pos = 0; pos < text.size(); pos += length) {
    const char32_t c = character_at(text, pos, &length);
    if (is_stable(c, form)) {
      stable = pos;
      continue;
    }
    // What stands between two stable characters is normalised together with the first of them.
    std::size_t end = pos;
    while (end < text.size() && !is_stable(character_at(text, end, &length), form)) end += length;
    storage->append(text.substr(copied, stable - copied));
    append_normalized(text.substr(stable, end - stable), form, storage);
    copied = stable = pos = end;
    length = 0;
  }
  if (copied == 0) return text;
  storage->append(text.substr(copied));
  return *storage;
}

std::string to_nfc(std::string_view text) {
  std::string valid = make_valid_utf8(text);
  std::string storage;
  const std::string_view formed = to_unicode_form(valid, UnicodeForm::kNfc, &storage);
  if (formed.data() == valid.data()) return valid;
  return storage;
}

bool is_nfc(std::string_view text) {
  std::string storage;
  return is_valid_utf8(text) && to_unicode_form(text, UnicodeForm::kNfc, &storage) == text;
}

}  // namespace caption
