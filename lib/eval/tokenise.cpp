#include "eval/tokenise.h"

#include <cstddef>

#include "base/utf8.h"
#include "eval/internal/unicode.h"

namespace caption::eval {
namespace {

// Collects characters into the current token.
class TokenWriter {
 public:
  void append(char32_t c) { append_utf8(token_, c); }
  void close() {
    if (!token_.empty()) tokens_.push_back(std::move(token_));
    token_.clear();
  }
  bool empty() const { return token_.empty(); }
  Tokens finish() {
    close();
    return std::move(tokens_);
  }

 private:
  std::string token_;
  Tokens tokens_;
};

// The letters that METEOR's normaliser does not separate: Latin and Cyrillic.
bool is_western_letter(char32_t c) {
  return (c >= U'A' && c <= U'Z') || (c >= U'a' && c <= U'z') || (c >= 0xC0 && c <= 0xD6) ||
         (c >= 0xD8 && c <= 0xF6) || (c >= 0xF8 && c <= 0x17E) || (c >= 0x400 && c <= 0x527) ||
         (c >= 0xA640 && c <= 0xA66E) || (c >= 0xA67E && c <= 0xA697) ||
         (c >= 0x1D00 && c <= 0x1D7F);
}

bool is_ascii_digit(char32_t c) { return c >= U'0' && c <= U'9'; }

bool is_western(char32_t c) { return is_western_letter(c) || is_ascii_digit(c); }

bool is_dropped_by_ptb(char32_t c) {
  constexpr std::u32string_view kDropped =
      U"'\"`.?!,:-;()[]{}\u2018\u2019\u201C\u201D\u2013\u2014\u2026";
  return kDropped.find(c) != std::u32string_view::npos;
}

}  // namespace

Tokens eojeol_tokens(std::string_view text) {
  TokenWriter writer;
  for (const char32_t c : decode_utf8_lossy(to_nfc(text))) {
    const bool is_nothing = is_ignorable(c);
    if (is_space(c) || is_punctuation_or_symbol(c) || (is_control(c) && !is_nothing)) {
      writer.close();
    } else if (!is_nothing) {
      writer.append(to_lower(c));
    }
  }
  return writer.finish();
}

Tokens syllable_tokens(std::string_view text) {
  const std::u32string chars = decode_utf8_lossy(to_nfc(text));
  const auto at = [&](std::size_t i) { return i < chars.size() ? chars[i] : U' '; };
  TokenWriter writer;
  for (std::size_t i = 0; i < chars.size(); ++i) {
    const char32_t c = chars[i];
    const bool is_inside_word = !writer.empty() && is_western(at(i + 1));
    if (is_western(c)) {
      writer.append(to_lower(c));
    } else if ((c == U'.' || c == U',') && is_inside_word && is_ascii_digit(at(i - 1)) &&
               is_ascii_digit(at(i + 1))) {
      writer.append(c);
    } else if ((c == U'\'' || c == 0x2019) && is_inside_word && is_western_letter(at(i + 1))) {
      writer.close();
      writer.append(U'\'');
    } else {
      writer.close();
      if (is_space(c) || is_control(c) || is_ignorable(c) || is_dropped_by_ptb(c)) continue;
      writer.append(to_lower(c));
      writer.close();
    }
  }
  return writer.finish();
}

}  // namespace caption::eval
