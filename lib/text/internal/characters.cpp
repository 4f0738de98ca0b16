#include "text/internal/characters.h"

#include <utf8proc.h>

#include <cstdint>

#include "base/utf8.h"

namespace caption::text {
namespace {

bool is_between(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

}  // namespace

bool is_white_space(char32_t c) {
  return is_between(c, 0x09, 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         is_between(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::size_t leading_space_bytes(std::string_view text) {
  std::size_t total = 0;
  std::size_t length = 0;
  while (total < text.size() && is_white_space(character_at(text, total, &length))) {
    total += length;
  }
  return total;
}

std::size_t trailing_space_bytes(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t begin = end - 1;
    while (begin > 0 && (static_cast<std::uint8_t>(text[begin]) & 0xC0u) == 0x80u) --begin;
    std::size_t length = 0;
    if (!is_white_space(character_at(text, begin, &length))) break;
    end = begin;
  }
  return text.size() - end;
}

bool is_word_character(char32_t c) {
  if (c == 0x200C || c == 0x200D) return true;
  // Symbols of the property Other_Alphabetic: circled and squared Latin letters.
  if (is_between(c, 0x24B6, 0x24E9) || is_between(c, 0x1F130, 0x1F149) ||
      is_between(c, 0x1F150, 0x1F169) || is_between(c, 0x1F170, 0x1F189)) {
    return true;
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return false;
  }
}

void append_lower_case(char32_t c, std::string* out) {
  if (c == 0x0130) {  // the only lower case of two characters
    out->append("i\u0307");
    return;
  }
  append_utf8(*out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

}  // namespace caption::text
