#include "text/internal/normalizer.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/internal/characters.h"

namespace caption::text {
namespace {

std::string_view apply_form(std::string_view text, UnicodeForm form, TextArena* arena) {
  std::string storage;
  const std::string_view formed = to_unicode_form(text, form, &storage);
  if (formed.data() == text.data()) return text;
  return arena->keep(std::move(storage), "Unicode form");
}

std::string lower_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t length = 0;
  for (std::size_t pos = 0; pos < text.size(); pos += length) {
    append_lower_case(character_at(text, pos, &length), &out);
  }
  return out;
}

std::string_view replace(std::string_view text, const NormalizerStep& step, TextArena* arena) {
  auto replaced = replace_bounded(text, step.pattern, step.content, arena->bytes_left());
  if (!replaced) arena->fail("Replace of " + json_quote(step.pattern));
  return arena->keep(*std::move(replaced), "Replace");
}

// True when `text` is one character.
bool is_one_character(std::string_view text) {
  std::size_t length = 0;
  character_at(text, 0, &length);
  return length == text.size();
}

}  // namespace

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t pos = 0;;) {
    const std::size_t hit = text.find(from, pos);
    out += text.substr(pos, hit - pos);
    if (hit == std::string_view::npos) return out;
    out += to;
    pos = hit + from.size();
  }
}

std::optional<std::string> replace_bounded(std::string_view text, std::string_view from,
                                           std::string_view to, std::size_t max_bytes) {
  std::size_t kept_bytes = text.size();
  std::size_t new_bytes = 0;
  for (std::size_t pos = text.find(from); pos != std::string_view::npos;
       pos = text.find(from, pos + from.size())) {
    kept_bytes -= from.size();
    new_bytes += to.size();
    if (new_bytes > max_bytes) return std::nullopt;
  }
  if (kept_bytes + new_bytes > max_bytes) return std::nullopt;
  return replace_all(text, from, to);
}

std::string_view TextArena::keep(std::string text, std::string_view step) {
  const std::size_t size_bytes = sizeof(std::string) + text.size();
  if (size_bytes > bytes_left_ || text.size() > kMaxTextBytes) fail(step);
  bytes_left_ -= size_bytes;
  return texts_.emplace_back(std::move(text));
}

void TextArena::fail(std::string_view step) const {
  throw Error(ErrorCode::kTooLarge, "the tokenizer's normalizer and pre_tokenizer make a text of " +
                                        std::to_string(text_bytes_) +
                                        " bytes too long, at the step " + std::string(step));
}

NormalizedText Normalizer::normalize(std::string_view text, TextArena* arena) const {
  NormalizedText result{.text = text};
  for (const NormalizerStep& step : steps_) {
    std::string_view& now = result.text;
    if (now.empty()) break;  // nothing is prepended to an empty text
    switch (step.kind) {
      case NormalizerStep::Kind::kForm: now = apply_form(now, step.form, arena); break;
      case NormalizerStep::Kind::kLowercase: now = arena->keep(lower_case(now), "Lowercase"); break;
      case NormalizerStep::Kind::kPrepend:
        now = arena->keep(step.content + std::string(now), "Prepend");
        break;
      case NormalizerStep::Kind::kReplace:
        if (now.starts_with(step.pattern) &&
            (step.content.empty() || !is_one_character(step.pattern))) {
          result.keeps_start = false;
        }
        if (now.find(step.pattern) != std::string_view::npos) {
          now = replace(now, step, arena);
        }
        break;
      case NormalizerStep::Kind::kStrip:
        if (step.strips_left) {
          const std::size_t length = leading_space_bytes(now);
          if (length > 0) result.keeps_start = false;
          now.remove_prefix(length);
        }
        if (step.strips_right) now.remove_suffix(trailing_space_bytes(now));
        break;
    }
  }
  return result;
}

std::string Normalizer::normalize(std::string_view text) const {
  TextArena arena(text.size());
  return std::string(normalize(text, &arena).text);
}

}  // namespace caption::text
