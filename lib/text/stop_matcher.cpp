#include "text/stop_matcher.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace caption::text {
namespace {

// One step of the Knuth-Morris-Pratt automaton: the number of matched bytes of `text` after reading
// `byte` in the state `num_matched`.
std::int64_t advance(std::string_view text, std::span<const std::int64_t> borders,
                     std::int64_t num_matched, char byte) {
  while (num_matched > 0 && text[static_cast<std::size_t>(num_matched)] != byte) {
    num_matched = borders[static_cast<std::size_t>(num_matched - 1)];
  }
  return num_matched + (text[static_cast<std::size_t>(num_matched)] == byte ? 1 : 0);
}

std::vector<std::int64_t> find_borders(std::string_view text) {
  std::vector<std::int64_t> borders = {0};
  for (const char byte : text.substr(1)) {
    borders.push_back(advance(text, borders, borders.back(), byte));
  }
  return borders;
}

}  // namespace

StopMatcher::StopMatcher(std::span<const std::string> stop_strings) {
  for (const std::string& text : stop_strings) {
    const std::string name = "stop string " + std::to_string(patterns_.size() + 1) + " of " +
                             std::to_string(stop_strings.size());
    if (text.empty()) {
      throw Error(ErrorCode::kUsage, "text: " + name + " is empty; it must have a character");
    }
    if (!is_valid_utf8(text)) {
      throw Error(ErrorCode::kUsage, "text: " + name + " is not UTF-8, as all text here is");
    }
    patterns_.push_back({text, find_borders(text), 0});
  }
}

std::string StopMatcher::push(std::string_view piece) {
  if (is_stopped_) return "";
  for (Pattern& pattern : patterns_) observe(pattern, piece);
  held_ += piece;
  num_seen_ += std::ssize(piece);
  std::int64_t certain = num_seen_;
  for (const Pattern& pattern : patterns_) {
    certain = std::min(certain, num_seen_ - pattern.num_matched);
  }
  // The match is final when no partial match that began before it can be completed.
  if (!stop_.has_value() || certain < *stop_) return release(certain);
  is_stopped_ = true;
  return release(*stop_);
}

std::string StopMatcher::finish() {
  if (is_stopped_) return "";
  is_stopped_ = stop_.has_value();
  return release(stop_.value_or(num_seen_));
}

void StopMatcher::observe(Pattern& pattern, std::string_view piece) {
  const std::int64_t size = std::ssize(pattern.text);
  for (std::size_t i = 0; i < piece.size(); ++i) {
    pattern.num_matched = advance(pattern.text, pattern.borders, pattern.num_matched, piece[i]);
    if (pattern.num_matched < size) continue;
    const std::int64_t begin = num_seen_ + static_cast<std::int64_t>(i) + 1 - size;
    stop_ = std::min(stop_.value_or(begin), begin);
    pattern.num_matched = pattern.borders.back();
  }
}

std::string StopMatcher::release(std::int64_t end) {
  const auto count = static_cast<std::size_t>(end - num_released_);
  std::string text = held_.substr(0, count);
  held_.erase(0, count);
  num_released_ = end;
  return text;
}

}  // namespace caption::text
