// Rewrites a pattern of Oniguruma's default syntax for PCRE2, and refuses what may differ.
#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/json.h"
#include "base/mend_advice.h"
#include "text/internal/regex.h"

namespace caption::text {
namespace {

// The property White_Space as the ranges of a class, and its complement. PCRE2's own \s counts
// U+180E too.
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNoSpaces =
    R"(\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF})"
    R"(\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where)
      : pattern_(pattern), where_(where) {}

  std::string translate() {
    while (pos_ < pattern_.size()) {
      const char c = pattern_[pos_];
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        class_character();
      } else if (c == '[') {
        open_class();
      } else if (c == '(') {
        group();
      } else if (c == '{') {
        interval();
      } else {
        out_ += c;
        ++pos_;
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail_unsupported(where_ + ": the pattern " + json_quote_start(pattern_, Regex::kCitedBytes) +
                     " uses " + std::string(what) + ", which this build does not read");
  }

  std::string_view rest() const { return pattern_.substr(pos_); }

  void open_class() {
    out_ += '[';
    ++pos_;
    in_class_ = true;
    if (rest().starts_with('^')) {
      out_ += '^';
      ++pos_;
    }
    if (rest().starts_with(']')) refuse("] at the start of a class");
  }

  void class_character() {
    const char c = pattern_[pos_];
    if (c == '[') refuse("a class inside a class");
    if (rest().starts_with("&&")) refuse("an intersection of classes");
    if (c == ']') in_class_ = false;
    out_ += c;
    ++pos_;
  }

  void group() {
    constexpr std::string_view kKnown[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    if (rest().starts_with("(*")) refuse("(*");  // PCRE2 alone has verbs
    if (!rest().starts_with("(?")) {
      out_ += '(';
      ++pos_;
      return;
    }
    for (const std::string_view known : kKnown) {
      if (!rest().starts_with(known)) continue;
      out_ += known;
      pos_ += known.size();
      return;
    }
    refuse("a group of the kind " + std::string(rest().substr(0, 4)));
  }

  // {n}, {n,} and {n,m}. For Oniguruma, a + after them is no possessive mark, and a{n}? is
  // (?:a{n})? (its doc/RE, A-4).
  void interval() {
    std::size_t end = pos_ + 1;
    while (end < pattern_.size() && is_digit(pattern_[end])) ++end;
    const bool has_number = end > pos_ + 1;
    const bool is_range = end < pattern_.size() && pattern_[end] == ',';
    if (is_range) ++end;
    while (end < pattern_.size() && is_digit(pattern_[end])) ++end;
    if (!has_number || end == pattern_.size() || pattern_[end] != '}') refuse("a bare {");
    ++end;
    if (end < pattern_.size() && pattern_[end] == '+') refuse("{...}+");
    if (!is_range && end < pattern_.size() && pattern_[end] == '?') refuse("{n}?");
    out_ += pattern_.substr(pos_, end - pos_);
    pos_ = end;
  }

  void escape() {
    if (pos_ + 1 == pattern_.size()) refuse("a \\ at its end");
    const char c = pattern_[pos_ + 1];
    const std::string name = {'\\', c};
    if (c == 's' || c == 'S') {
      const std::string_view ranges = (c == 's') ? kSpaces : kNoSpaces;
      out_ +=
          in_class_ ? std::string(ranges) : (c == 's' ? "[" : "[^") + std::string(kSpaces) + "]";
      pos_ += 2;
    } else if (c == 'p' || c == 'P') {
      property();
    } else if (c == 'v') {
      out_ += R"(\x{B})";
      pos_ += 2;
    } else if (c == 'u') {
      code_point();
    } else if (std::string_view("rntfaedD").find(c) != std::string_view::npos ||
               (std::string_view("AzZ").find(c) != std::string_view::npos && !in_class_)) {
      out_ += name;
      pos_ += 2;
    } else if (is_letter(c) || is_digit(c)) {
      refuse(name);
    } else {  // an escaped sign, or the first byte of a character
      out_ += static_cast<unsigned char>(c) < 0x80 ? name : std::string(1, c);
      pos_ += 2;
    }
  }

  // \p{L}, \p{Lu}: general categories; \p{Han}: a script. \p{^L} is \P{L}.
  void property() {
    const std::size_t end = pattern_.find('}', pos_);
    if (!pattern_.substr(pos_ + 2).starts_with('{') || end == std::string_view::npos) {
      refuse("\\p without {}");
    }
    std::string_view name = pattern_.substr(pos_ + 3, end - pos_ - 3);
    bool is_negated = pattern_[pos_ + 1] == 'P';
    if (name.starts_with('^')) {
      is_negated = !is_negated;
      name.remove_prefix(1);
    }
    if (name.empty() ||
        !std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || c == '_'; })) {
      refuse("\\p{" + std::string(name) + "}");
    }
    out_ += is_negated ? "\\P{" : "\\p{";
    out_ += category_or_script(name) + "}";
    pos_ = end + 1;
  }

  std::string category_or_script(std::string_view name) const {
    constexpr std::string_view kCategories =
        " C Cc Cf Cn Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk "
        "Sm "
        "So Z Zl Zp Zs ";
    constexpr std::string_view kScripts =
        " Arabic Armenian Bengali Bopomofo Braille Cyrillic Devanagari Ethiopic Georgian Greek "
        "Gujarati Gurmukhi Han Hangul Hebrew Hiragana Kannada Katakana Khmer Lao Latin Malayalam "
        "Mongolian Myanmar Oriya Sinhala Tamil Telugu Thaana Thai Tibetan ";
    const std::string key = " " + std::string(name) + " ";
    if (kCategories.find(key) != std::string_view::npos) return std::string(name);
    if (kScripts.find(key) != std::string_view::npos) return "sc:" + std::string(name);
    refuse("\\p{" + std::string(name) + "}");
  }

  void code_point() {
    const std::string_view digits = pattern_.substr(pos_ + 2, 4);
    if (digits.size() != 4 || !std::all_of(digits.begin(), digits.end(), [](char c) {
          return std::isxdigit(static_cast<unsigned char>(c)) != 0;
        })) {
      refuse("\\u without four digits");
    }
    out_ += "\\x{" + std::string(digits) + "}";
    pos_ += 6;
  }

  std::string_view pattern_;
  const std::string& where_;
  std::string out_;
  std::size_t pos_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::string escape_regex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    // White space and control characters stand for themselves.
    if (byte > 0x20 && byte < 0x7F && !is_letter(c) && !is_digit(c)) out += '\\';
    out += c;
  }
  return out;
}

std::string translate_regex(std::string_view pattern, const std::string& where) {
  return Translator(pattern, where).translate();
}

}  // namespace caption::text
