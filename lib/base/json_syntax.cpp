#include "base/internal/json_syntax.h"

#include <algorithm>

#include "base/utf8.h"

namespace caption {
namespace {

constexpr std::size_t kMaxTokenBytes = 40;
constexpr std::string_view kSpace = " \t\r\n";

bool is_word_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
         c == '-' || c == '.' || c == '_';
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20; }

bool is_value(std::string_view word) {
  return word == "true" || word == "false" || word == "null" ||
         (!word.empty() && ((word[0] >= '0' && word[0] <= '9') || word[0] == '-'));
}

// The last character before `at` that is not whitespace; '\0' when there is none.
char previous_character(std::string_view text, std::size_t at) {
  const std::size_t found = text.substr(0, at).find_last_not_of(kSpace);
  return found == std::string_view::npos ? '\0' : text[found];
}

// Start of the word or string whose last byte, `at`, the parser had read.
std::size_t begin_of_token(std::string_view text, std::size_t at) {
  if (text[at] == '"') {
    for (std::size_t i = at; i > 0; --i) {
      if (text[i - 1] == '"' && (i < 2 || text[i - 2] != '\\')) return i - 1;
      if (text[i - 1] == '\n') break;
    }
    return at;
  }
  std::size_t begin = at;
  while (begin > 0 && is_word_character(text[begin - 1])) --begin;
  if (is_word_character(text[at])) return begin;
  // The parser reads a misspelt word up to the first character that cannot belong to it; a correct
  // word was already consumed.
  return is_value(text.substr(begin, at - begin)) ? at : begin;
}

// The token that begins at `begin`, cut to kMaxTokenBytes.
std::string token_at(std::string_view text, std::size_t begin) {
  std::size_t end = begin + 1;
  if (text[begin] == '"') {
    end = std::min(text.find('"', end), text.size() - 1) + 1;
  } else if (is_word_character(text[begin])) {
    while (end < text.size() && is_word_character(text[end])) ++end;
  } else {
    while (end < text.size() && is_continuation(text[end])) ++end;
  }
  std::string_view token = text.substr(begin, end - begin);
  const bool is_long = token.size() > kMaxTokenBytes;
  if (is_long) {
    token = token.substr(0, kMaxTokenBytes);
    token = token.substr(0, complete_utf8_prefix(token));
  }
  std::string out = make_valid_utf8(token);
  std::replace_if(out.begin(), out.end(), is_control, ' ');
  return out + (is_long ? "..." : "");
}

std::string describe_position(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const std::size_t line_break = before.rfind('\n');
  const std::string_view line =
      line_break == std::string_view::npos ? before : before.substr(line_break + 1);
  std::string out = "column " + std::to_string(decode_utf8_lossy(line).size() + 1);
  if (text.find('\n') < text.find_last_not_of(kSpace)) {
    const auto number = std::count(before.begin(), before.end(), '\n') + 1;
    out = "line " + std::to_string(number) + ", " + out;
  }
  return out;
}

// Describes an error in a single character; empty when the error is in a token.
std::string describe_character(std::string_view text, std::size_t at) {
  std::size_t end = at + 1;
  while (end < text.size() && is_continuation(text[end])) ++end;
  if (!is_valid_utf8(text.substr(0, end))) return "bytes that are no UTF-8";
  if (is_control(text[at])) return "a control character; in a text a line break is \\n";
  if (at > 0 && text[at - 1] == '\\') {
    return std::string(text.substr(at - 1, end - at + 1)) +
           " is no escape of JSON; a backslash is \\\\";
  }
  if (text[at] == '\'') return "text stands in double quotes, not in '";
  return {};
}

// Describes an escape \u that stands for no character. Python writes what was no UTF-8, such as a
// file's name, as surrogates without their pair.
std::string describe_code_point(std::string_view escape) {
  constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
  const std::string_view code = escape.substr(0, 5);
  const bool is_whole =
      code.size() == 5 && code.find_first_not_of(kDigits, 1) == std::string_view::npos;
  return "\\" + std::string(code) +
         (is_whole ? " is a surrogate without its pair, which is no character"
                   : " is no escape of JSON; \\u and four hexadecimal digits are");
}

std::string describe_token(std::string_view text, std::size_t begin) {
  const char before = previous_character(text, begin);
  const std::string token = token_at(text, begin);
  if (before == '\\' && token[0] == 'u') return describe_code_point(token);
  if (before == '\0') {
    return "{ is expected, not " + (is_word_character(token[0]) ? "\"" + token + "\"" : token);
  }
  const bool closes = token == "}" || token == "]";
  if (before == ',' && closes) return "a comma too many before " + token;
  if (before == ':' && (closes || token == ",")) return "the value after : is missing";
  const bool ends_value = before == '"' || before == '}' || before == ']' ||
                          (is_word_character(before) && !is_word_character(text[begin - 1]));
  if (ends_value &&
      (token[0] == '"' || token[0] == '{' || token[0] == '[' || is_word_character(token[0]))) {
    return "a comma, a colon or the end is missing before " + token;
  }
  return "unexpected " + token;
}

}  // namespace

std::string describe_json_error(std::string_view text, std::size_t byte) {
  if (text.find_first_not_of(kSpace) == std::string_view::npos) return "it is empty";
  const std::size_t at = byte == 0 ? 0 : byte - 1;
  if (at >= text.size()) {
    // The blanks at the end of a file are not what a reader looks for.
    return describe_position(text, text.find_last_not_of(kSpace) + 1) +
           ": it ends too early; a quote or bracket is not closed";
  }
  if (const std::string what = describe_character(text, at); !what.empty()) {
    return describe_position(text, at) + ": " + what;
  }
  const std::size_t begin = begin_of_token(text, at);
  return describe_position(text, begin) + ": " + describe_token(text, begin);
}

}  // namespace caption
