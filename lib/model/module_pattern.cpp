#include "model/internal/module_pattern.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace caption::model {
namespace {

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

std::size_t index_of(char c) { return static_cast<unsigned char>(c); }

void add_range(char first, char last, std::bitset<256>& set) {
  for (std::size_t c = index_of(first); c <= index_of(last); ++c) set.set(c);
}

// Reads the escape whose letter is `letter`; false for one that has a meaning of its own.
bool read_escape(char letter, std::bitset<256>& set) {
  if (letter == 'd') {
    add_range('0', '9', set);
    return true;
  }
  if (is_alphanumeric(letter)) return false;
  set.set(index_of(letter));
  return true;
}

// Reads a set behind its opening bracket and removes it from `text`.
bool read_set(std::string_view& text, std::bitset<256>& set) {
  const std::size_t end = text.find(']', 1);
  if (end == std::string_view::npos || text.front() == '^') return false;
  const std::string_view inside = text.substr(0, end);
  if (inside.find_first_of("[\\") != std::string_view::npos) return false;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    const bool is_range = i + 2 < inside.size() && inside[i + 1] == '-';
    add_range(inside[i], is_range ? inside[i + 2] : inside[i], set);
    if (is_range) i += 2;
  }
  text.remove_prefix(end + 1);
  return true;
}

bool read_characters(std::string_view& text, std::bitset<256>& set) {
  const char c = text.front();
  text.remove_prefix(1);
  switch (c) {
    case '.':
      set.set();
      set.reset(index_of('\n'));
      return true;
    case '[': return !text.empty() && read_set(text, set);
    case '\\': {
      if (text.empty() || !read_escape(text.front(), set)) return false;
      text.remove_prefix(1);
      return true;
    }
    case '*':
    case '+':
    case '?':
    case '(':
    case ')':
    case '|':
    case '{':
    case '^':
    case '$': return false;
    default: set.set(index_of(c)); return true;
  }
}

}  // namespace

ModulePattern::Repeat ModulePattern::read_repeat(std::string_view& text) {
  if (text.empty()) return Repeat::kOnce;
  const char c = text.front();
  if (c != '*' && c != '+' && c != '?') return Repeat::kOnce;
  text.remove_prefix(1);
  if (c == '?') return Repeat::kOptional;
  return c == '*' ? Repeat::kAny : Repeat::kAtLeastOnce;
}

std::optional<ModulePattern> ModulePattern::parse(std::string_view text) {
  ModulePattern pattern;
  if (text.starts_with('^')) {
    pattern.is_anchored_ = true;
    text.remove_prefix(1);
  }
  const bool is_escaped = text.size() >= 2 && text[text.size() - 2] == '\\';
  if (text.ends_with('$') && !is_escaped) text.remove_suffix(1);
  while (!text.empty()) {
    Atom atom;
    if (!read_characters(text, atom.characters)) return std::nullopt;
    atom.repeat = read_repeat(text);
    pattern.atoms_.push_back(atom);
  }
  return pattern;
}

// Simulates all ways to match at once, wherever they begin: reached[i] says that the atoms before i
// match some characters before the present place.
bool ModulePattern::matches(std::string_view module) const {
  const std::size_t num_atoms = atoms_.size();
  std::vector<std::uint8_t> reached(num_atoms + 1);
  std::vector<std::uint8_t> next(num_atoms + 1);
  std::vector<std::uint8_t> repeating(num_atoms);  // atom i has matched and may match again
  const auto skip_optional = [&] {
    for (std::size_t i = 0; i < num_atoms; ++i) {
      if (reached[i] != 0 && atoms_[i].may_be_skipped()) reached[i + 1] = 1;
    }
  };
  reached[0] = 1;
  skip_optional();
  for (const char c : module) {
    std::fill(next.begin(), next.end(), 0);
    next[0] = c == '.' && !is_anchored_ ? 1 : 0;  // the pattern may begin behind a dot
    for (std::size_t i = 0; i < num_atoms; ++i) {
      const bool is_tried = reached[i] != 0 || repeating[i] != 0;
      const bool is_match = is_tried && atoms_[i].characters.test(index_of(c));
      repeating[i] = is_match && atoms_[i].may_repeat() ? 1 : 0;
      if (is_match) next[i + 1] = 1;
    }
    reached.swap(next);
    skip_optional();
  }
  return reached[num_atoms] != 0;
}

}  // namespace caption::model
