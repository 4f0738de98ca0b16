// text/internal/normalizer.h: the `normalizer` of a tokenizer.json.
// Source: Hugging Face tokenizers 0.22, tokenizers/src/normalizers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unicode_form.h"

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

// The longest text that is encoded: positions have 32 bits.
inline constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

// Texts that views refer to, which it does not move. It holds at most 1 MiB and 64 bytes for each
// byte of the text that is encoded: far more than the steps of a published tokenizer make of a text
// (NFKC, which grows it most, makes eleven bytes of one), and little enough that no list of steps
// takes long.
class TextArena {
 public:
  // `text_bytes` is the size of the text that is encoded.
  explicit TextArena(std::size_t text_bytes)
      : text_bytes_(text_bytes), bytes_left_((std::size_t{1} << 20) + 64 * text_bytes) {}

  // Throws Error(kTooLarge) when there is no room; `step` names what made the text.
  std::string_view keep(std::string text, std::string_view step);
  // The size of the longest text for which there is room.
  std::size_t bytes_left() const { return std::min(bytes_left_, kMaxTextBytes); }
  // Throws Error(kTooLarge) for a step that would make a text without room.
  [[noreturn]] void fail(std::string_view step) const;

 private:
  std::deque<std::string> texts_;
  std::size_t text_bytes_;
  std::size_t bytes_left_;
};

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
  // `text` is valid UTF-8. Throws as TextArena.
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
