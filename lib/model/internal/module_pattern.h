// model/internal/module_pattern.h: the keys of PEFT's rank_pattern and alpha_pattern.
#pragma once

#include <bitset>
#include <optional>
#include <string_view>
#include <vector>

namespace caption::model {

// A parsed key. Immutable.
class ModulePattern {
 public:
  // Supported are characters, `.`, escapes of punctuation, \d, sets as [0-9a], the quantifiers
  // * + ?, a leading ^ and a trailing $. Returns std::nullopt for a pattern with anything else.
  static std::optional<ModulePattern> parse(std::string_view text);

  // Whether Python's re.match("(.*\.)?(PATTERN)$", module) finds a match: the pattern matches the
  // module's whole name, or what follows one of its dots. Takes time proportional to the product of
  // the pattern's and the module's length.
  bool matches(std::string_view module) const;

 private:
  enum class Repeat { kOnce, kOptional, kAny, kAtLeastOnce };

  // A set of characters and how often one of them occurs.
  struct Atom {
    bool may_be_skipped() const { return repeat == Repeat::kOptional || repeat == Repeat::kAny; }
    bool may_repeat() const { return repeat == Repeat::kAny || repeat == Repeat::kAtLeastOnce; }

    std::bitset<256> characters;
    Repeat repeat = Repeat::kOnce;
  };

  static Repeat read_repeat(std::string_view& text);

  std::vector<Atom> atoms_;
  bool is_anchored_ = false;  // begins with ^
};

}  // namespace caption::model
