// text/internal/normalizer.h: the `normalizer` of a tokenizer.json.
// Source: Hugging Face tokenizers 0.22, tokenizers/src/normalizers.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/internal/unicode_form.h"

namespace caption::text {

struct NormalizerStep {
  enum class Kind { kForm, kLowercase, kPrepend, kReplace, kStrip };
  Kind kind = Kind::kForm;
  UnicodeForm form = UnicodeForm::kNfc;  // kForm
  std::string pattern;                   // kReplace: the text to replace, not empty
  std::string content;                   // kPrepend, kReplace
  bool strips_left = false;              // kStrip
  bool strips_right = false;
};

// Texts that views refer to; a deque never moves its elements.
using TextArena = std::deque<std::string>;

struct NormalizedText {
  std::string_view text;  // the argument, or a text of the arena
  // False when the reference takes the first character for one from the middle of the argument:
  // what stood before it was removed, or is part of a longer text that was replaced.
  bool keeps_start = true;
};

// Immutable and thread-safe.
class Normalizer {
 public:
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}
  // `text` is valid UTF-8. Throws Error(kTooLarge) when a step would make more than 1 GiB of it.
  NormalizedText normalize(std::string_view text, TextArena* arena) const;
  std::string normalize(std::string_view text) const;

 private:
  std::vector<NormalizerStep> steps_;
};

// `text` with each `from` (not empty) replaced, from left to right.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);
// The same, or std::nullopt when that text would have more than `max_bytes` bytes.
std::optional<std::string> replace_bounded(std::string_view text, std::string_view from,
                                           std::string_view to, std::size_t max_bytes);

}  // namespace caption::text
