// text/internal/regex.h: the regular expressions of a tokenizer.json, which are written for
// Oniguruma and run here by PCRE2.
//
// The classes \s, \d and \p{..} are those of Unicode. Where the two libraries differ (\s and
// U+180E, \v, \p{Script}, which PCRE2 takes for script extensions) the pattern is rewritten; what
// cannot be is refused. Unassigned characters depend on the version of Unicode: 14 in PCRE2 10.42,
// which is Debian 12's, 16 in PCRE2 10.45 and in the Oniguruma 6.9.10 of the reference.
// Source: Oniguruma doc/RE (default syntax), pcre2pattern(3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace caption::text {

// The processor time after which no search in a text is begun: thousands of times what the longest
// prompt takes with a published pattern.
constexpr std::int64_t search_budget_us(std::size_t text_bytes) {
  return 5'000'000 + 10 * static_cast<std::int64_t>(text_bytes);
}

// The memory of searches, and their budget, which runs from the construction on. For use by one
// thread, with any Regex.
class RegexScratch {
 public:
  explicit RegexScratch(std::int64_t budget_us);
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

// Immutable and thread-safe. Compiled to machine code where the machine allows it.
class Regex {
 public:
  // The bytes of a pattern that messages cite: more than published patterns have.
  static constexpr std::size_t kCitedBytes = 512;

  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;  // > begin
  };

  // Throws Error(kUnavailable) "WHERE: ..." for a pattern that cannot be compiled, that uses what
  // is not known to mean the same in both libraries, or that matches the empty text.
  Regex(std::string_view pattern, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;

  // The first match at or after `from` in valid UTF-8. Throws Error(kTooLarge) when it takes more
  // steps at one position than any pattern of a published tokenizer needs, or when the budget of
  // `scratch` is used up.
  std::optional<Match> find(std::string_view text, std::size_t from, RegexScratch* scratch) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A pattern that matches exactly this text.
std::string escape_regex(std::string_view text);

// The pattern in the syntax of PCRE2. Throws as Regex's constructor. Exposed for tests.
std::string translate_regex(std::string_view pattern, const std::string& where);

}  // namespace caption::text
