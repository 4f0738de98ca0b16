#include "base/json_stream.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "base/internal/json_syntax.h"
#include "base/mend_advice.h"
#include "base/utf8.h"

namespace caption {
namespace {

bool is_json_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The length of the number at the start of `text` by the grammar of JSON; 0 when there is none.
std::size_t number_length(std::string_view text) {
  std::size_t at = 0;
  const auto digits = [&] {
    const std::size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at - begin;
  };
  if (at < text.size() && text[at] == '-') ++at;
  const bool has_leading_zero = at < text.size() && text[at] == '0';
  const std::size_t num_digits = digits();
  if (num_digits == 0 || (has_leading_zero && num_digits > 1)) return 0;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0) return 0;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return 0;
  }
  return at;
}

}  // namespace

JsonStream::JsonStream(std::string_view text, std::string name_for_errors, ErrorCode code)
    : text_(text), name_(std::move(name_for_errors)), code_(code) {}

void JsonStream::fail(const std::string& message) const {
  const std::string_view before = text_.substr(0, value_begin_);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const std::size_t column = decode_utf8_lossy(before.substr(line_begin)).size() + 1;
  throw Error(code_, name_ + ": line " + std::to_string(line) + ", column " +
                         std::to_string(column) + ": " + message + mend_advice(code_));
}

void JsonStream::fail_syntax() const {
  throw Error(code_, name_ + ": not valid JSON: " + describe_json_error(text_, pos_ + 1) +
                         mend_advice(code_));
}

void JsonStream::fail_type(std::string_view expected) {
  constexpr std::string_view kNames[] = {"an object", "a list", "a string", "a number",
                                         "true, false or null"};
  const Kind found = peek();
  value_begin_ = pos_;
  fail("expected " + std::string(expected) + ", found " +
       std::string(kNames[static_cast<int>(found)]));
}

void JsonStream::skip_space() {
  while (pos_ < text_.size() && is_json_space(text_[pos_])) ++pos_;
}

char JsonStream::next_char() {
  skip_space();
  if (pos_ == text_.size()) fail_syntax();
  return text_[pos_];
}

JsonStream::Kind JsonStream::peek() {
  const char c = next_char();
  if (c == '{') return Kind::kObject;
  if (c == '[') return Kind::kArray;
  if (c == '"') return Kind::kString;
  if (c == '-' || is_digit(c)) return Kind::kNumber;
  if (c == 't' || c == 'f' || c == 'n') return Kind::kLiteral;
  fail_syntax();
}

void JsonStream::expect(char c, std::string_view expected) {
  if (next_char() != c) fail_type(expected);
  value_begin_ = pos_++;
  is_first_ = true;
}

void JsonStream::begin_object() { expect('{', "an object"); }
void JsonStream::begin_array() { expect('[', "a list"); }

bool JsonStream::next_key(std::string* key) {
  char c = next_char();
  if (c == '}') {
    ++pos_;
    is_first_ = false;
    return false;
  }
  if (!is_first_) {
    if (c != ',') fail_syntax();
    ++pos_;
    c = next_char();
  }
  is_first_ = false;
  if (c != '"') fail_syntax();
  std::string scratch;
  *key = read_string(&scratch);
  if (next_char() != ':') fail_syntax();
  ++pos_;
  return true;
}

bool JsonStream::next_element() {
  const char c = next_char();
  if (c == ']') {
    ++pos_;
    is_first_ = false;
    return false;
  }
  if (!is_first_) {
    if (c != ',') fail_syntax();
    ++pos_;
    if (next_char() == ']') fail_syntax();
  }
  is_first_ = false;
  return true;
}

std::string_view JsonStream::read_string(std::string* scratch) {
  if (next_char() != '"') fail_type("a string");
  value_begin_ = pos_++;
  const std::size_t begin = pos_;
  bool has_escape = false;
  unsigned char all_bits = 0;  // the top bit tells whether any byte is beyond ASCII
  scratch->clear();
  for (std::size_t copied = begin;;) {
    if (pos_ == text_.size()) fail_syntax();
    const auto c = static_cast<unsigned char>(text_[pos_]);
    all_bits |= c;
    if (c < 0x20) fail_syntax();
    if (c == '"' || c == '\\') {
      const std::string_view part = text_.substr(copied, pos_ - copied);
      if (c == '\\') {
        has_escape = true;
        scratch->append(part);
        ++pos_;
        read_escape(scratch);
        copied = pos_;
        continue;
      }
      const std::string_view raw = text_.substr(begin, pos_ - begin);
      if (all_bits >= 0x80 && !is_valid_utf8(raw)) fail("a string that is not valid UTF-8");
      ++pos_;
      if (!has_escape) return raw;
      scratch->append(part);
      return *scratch;
    }
    ++pos_;
  }
}

void JsonStream::read_escape(std::string* out) {
  if (pos_ == text_.size()) fail_syntax();
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
  const std::size_t which = kLetters.find(text_[pos_]);
  if (which != std::string_view::npos) {
    out->push_back(kValues[which]);
    ++pos_;
    return;
  }
  if (text_[pos_] != 'u') fail_syntax();
  ++pos_;
  std::uint32_t code_point = read_hex();
  if (code_point >= 0xD800 && code_point < 0xDC00) {
    if (text_.substr(pos_, 2) != "\\u") fail_syntax();
    pos_ += 2;
    const std::uint32_t low = read_hex();
    if (low < 0xDC00 || low > 0xDFFF) fail_syntax();
    code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
  } else if (code_point >= 0xDC00 && code_point < 0xE000) {
    fail_syntax();
  }
  append_utf8(*out, code_point);
}

std::uint32_t JsonStream::read_hex() {
  constexpr std::size_t kDigits = 4;
  const std::string_view digits = text_.substr(pos_, kDigits);
  std::uint32_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || digits.size() != kDigits || end != digits.data() + kDigits) {
    fail_syntax();
  }
  pos_ += kDigits;
  return value;
}

std::string_view JsonStream::number_text() {
  if (peek() != Kind::kNumber) fail_type("a number");
  value_begin_ = pos_;
  const std::size_t length = number_length(text_.substr(pos_));
  if (length == 0) fail_syntax();
  pos_ += length;
  return text_.substr(value_begin_, length);
}

std::int64_t JsonStream::read_int(std::int64_t min, std::int64_t max) {
  const std::string_view digits = number_text();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < min || value > max) {
    constexpr std::size_t kMaxShown = 40;
    fail("expected an integer from " + std::to_string(min) + " to " + std::to_string(max) +
         ", found " + std::string(digits.substr(0, kMaxShown)));
  }
  return value;
}

double JsonStream::read_double() {
  const std::string_view digits = number_text();
  double value = 0.0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value)) {
    fail("a number that a double cannot hold");
  }
  return value;
}

void JsonStream::skip_string() {
  for (++pos_; pos_ < text_.size(); ++pos_) {
    if (text_[pos_] == '"') {
      ++pos_;
      return;
    }
    if (text_[pos_] == '\\') ++pos_;
  }
  pos_ = text_.size();
  fail_syntax();
}

std::string_view JsonStream::skip_value() {
  const Kind kind = peek();
  value_begin_ = pos_;
  const std::size_t begin = pos_;
  if (kind == Kind::kString) {
    skip_string();
  } else if (kind == Kind::kNumber) {
    number_text();
  } else if (kind == Kind::kLiteral) {
    while (pos_ < text_.size() && text_[pos_] >= 'a' && text_[pos_] <= 'z') ++pos_;
  } else {
    std::string closers;  // the brackets that open objects and lists end with, the outermost first
    do {
      if (pos_ == text_.size()) fail_syntax();
      const char c = text_[pos_];
      if (c == '"') {
        skip_string();
        continue;
      }
      if (c == '{') closers += '}';
      if (c == '[') closers += ']';
      if (c == '}' || c == ']') {
        if (closers.back() != c) fail_syntax();
        closers.pop_back();
      }
      ++pos_;
    } while (!closers.empty());
  }
  return text_.substr(begin, pos_ - begin);
}

void JsonStream::finish() {
  skip_space();
  if (pos_ != text_.size()) fail_syntax();
}

}  // namespace caption
