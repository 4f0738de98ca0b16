#include "eval/internal/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/utf8.h"

namespace caption::eval {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

struct Free {
  void operator()(utf8proc_uint8_t* bytes) const { std::free(bytes); }
};

}  // namespace

std::string to_nfc(std::string_view text) {
  const std::string valid = make_valid_utf8(text);
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(valid.data()),
                   static_cast<utf8proc_ssize_t>(valid.size()), &mapped,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, Free> owner(mapped);
  CAPTION_CHECK(size >= 0, std::string("utf8proc: ") + utf8proc_errmsg(size));
  return std::string(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size));
}

bool is_nfc(std::string_view text) { return to_nfc(text) == text; }

char32_t to_lower(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

std::u32string to_lower(std::u32string text) {
  for (char32_t& c : text) c = to_lower(c);
  return text;
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

bool is_upper(char32_t c) {
  const utf8proc_category_t found = category(c);
  return found == UTF8PROC_CATEGORY_LU || found == UTF8PROC_CATEGORY_LT;
}

bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }

}  // namespace caption::eval
