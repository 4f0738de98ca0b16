// eval/internal/unicode.h: the Unicode properties that the metrics need. All functions are pure and
// thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/unicode_form.h"

namespace caption::eval {

// Simple (one to one) lower-casing.
char32_t to_lower(char32_t c);
std::u32string to_lower(std::u32string text);

// Full lower-casing like Python's str.lower(): U+0130 becomes two code points, and a capital sigma
// at the end of a word becomes U+03C2. Source: SpecialCasing.txt and section 3.13 of Unicode 14;
// like Python, without the conditional mappings of Lithuanian, Turkish and Azeri.
std::u32string to_lower_full(std::u32string_view text);

bool is_space(char32_t c);                  // as Python's str.split()
bool is_control(char32_t c);                // Cc
bool is_ignorable(char32_t c);              // Default_Ignorable: joiners, variation selectors, BOM
bool is_punctuation_or_symbol(char32_t c);  // P*, S*
bool is_digit(char32_t c);                  // Nd, as \d
bool is_word(char32_t c);                   // L*, N*, "_": \w of Python's module re
bool is_word_of_regex(char32_t c);          // L*, M*, Nd, Nl, Pc, joiners: \w of the module regex
bool is_upper(char32_t c);                  // Lu, Lt
bool is_lower(char32_t c);                  // Ll

inline bool is_one_of(char32_t c, std::u32string_view set) {
  return set.find(c) != std::u32string_view::npos;
}
constexpr bool is_hangul_syllable(char32_t c) { return c >= 0xAC00 && c <= 0xD7A3; }

}  // namespace caption::eval
