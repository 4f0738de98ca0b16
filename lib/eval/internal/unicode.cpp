#include "eval/internal/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace caption::eval {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

struct Range {
  char32_t first;
  char32_t last;
};

// Other_Lowercase and Other_Uppercase of PropList.txt: cased characters that are not in Lu, Ll or
// Lt.
constexpr std::array kOtherCased = std::to_array<Range>(
    {{0xAA, 0xAA},       {0xBA, 0xBA},       {0x2B0, 0x2B8},     {0x2C0, 0x2C1},
     {0x2E0, 0x2E4},     {0x345, 0x345},     {0x37A, 0x37A},     {0x1D2C, 0x1D6A},
     {0x1D78, 0x1D78},   {0x1D9B, 0x1DBF},   {0x2071, 0x2071},   {0x207F, 0x207F},
     {0x2090, 0x209C},   {0x2160, 0x217F},   {0x24B6, 0x24E9},   {0x2C7C, 0x2C7D},
     {0xA69C, 0xA69D},   {0xA770, 0xA770},   {0xA7F8, 0xA7F9},   {0xAB5C, 0xAB5F},
     {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA},
     {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}});

bool is_cased(char32_t c) {
  const utf8proc_category_t found = category(c);
  if (found >= UTF8PROC_CATEGORY_LU && found <= UTF8PROC_CATEGORY_LT) return true;
  return std::any_of(kOtherCased.begin(), kOtherCased.end(),
                     [&](const Range& range) { return c >= range.first && c <= range.last; });
}

// The property Case_Ignorable: marks, format characters, modifiers, and the apostrophes, periods
// and colons that may occur inside a word (Word_Break MidLetter, MidNumLet, Single_Quote).
bool is_case_ignorable(char32_t c) {
  constexpr std::u32string_view kInsideWords =
      U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A";
  if (kInsideWords.find(c) != std::u32string_view::npos) return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return false;
  }
}

// Whether the capital sigma at `at` ends a word (Unicode, condition Final_Sigma): ignoring
// case-ignorable characters, the character before it is cased, and the one after it is uncased or
// absent.
bool is_final_sigma(std::u32string_view text, std::size_t at) {
  std::size_t before = at;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  std::size_t after = at + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

}  // namespace

char32_t to_lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

std::u32string to_lower(std::u32string text) {
  for (char32_t& c : text) c = to_lower(c);
  return text;
}

std::u32string to_lower_full(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == 0x0130) {
      out.append(U"i\u0307");
    } else if (text[i] == 0x03A3 && is_final_sigma(text, i)) {
      out.push_back(0x03C2);
    } else {
      out.push_back(to_lower(text[i]));
    }
  }
  return out;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_control(char32_t c) { return category(c) == UTF8PROC_CATEGORY_CC; }

bool is_ignorable(char32_t c) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->ignorable != 0;
}

bool is_punctuation_or_symbol(char32_t c) {
  const utf8proc_category_t found = category(c);
  return found >= UTF8PROC_CATEGORY_PC && found <= UTF8PROC_CATEGORY_SO;
}

bool is_digit(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_word(char32_t c) {
  const utf8proc_category_t found = category(c);
  return c == U'_' || (found >= UTF8PROC_CATEGORY_LU && found <= UTF8PROC_CATEGORY_LO) ||
         (found >= UTF8PROC_CATEGORY_ND && found <= UTF8PROC_CATEGORY_NO);
}

bool is_word_of_regex(char32_t c) {
  const utf8proc_category_t found = category(c);
  return c == 0x200C || c == 0x200D || found == UTF8PROC_CATEGORY_PC ||
         (found >= UTF8PROC_CATEGORY_LU && found <= UTF8PROC_CATEGORY_NL);
}

bool is_upper(char32_t c) {
  const utf8proc_category_t found = category(c);
  return found == UTF8PROC_CATEGORY_LU || found == UTF8PROC_CATEGORY_LT;
}

bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }

}  // namespace caption::eval
