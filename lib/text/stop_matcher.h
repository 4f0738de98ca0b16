// text/stop_matcher.h: ends a growing text where the first stop string begins.
//
// The law: whatever the pieces, joined they give text.substr(0, p), where p is the least
// text.find() of a stop string, or all of the text when there is none. Each piece is given out as
// early as that allows: what may yet become a stop string is held back, at most the longest one
// less a byte.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caption::text {

// One thread at a time. Time per byte: amortised constant for each stop string (Knuth, Morris,
// Pratt).
class StopMatcher {
 public:
  // None at all is allowed: everything passes. Throws Error(kUsage) for a stop string that is empty
  // or not UTF-8.
  explicit StopMatcher(std::span<const std::string> stop_strings);

  // `piece` is text in whole characters (IncrementalDecoder's). Returns what is certain to be
  // before any stop string, in whole characters, too; often empty, and always after the stop.
  std::string push(std::string_view piece);
  // No text follows: returns the rest, and decides a stop that a longer one could still have
  // overtaken ("c" found inside what could have become "abcd").
  std::string finish();

  // The text ends here; what has been given out is final.
  bool is_stopped() const { return is_stopped_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<std::int64_t> borders;  // of text[0..i]: the longest proper prefix that is a suffix
    std::int64_t num_matched = 0;       // bytes at the end of the input that begin `text`
  };

  void observe(Pattern& pattern, std::string_view piece);
  std::string release(std::int64_t end);

  std::vector<Pattern> patterns_;
  std::string held_;                  // the input from num_released_ on
  std::int64_t num_released_ = 0;     // bytes
  std::int64_t num_seen_ = 0;         // bytes
  std::optional<std::int64_t> stop_;  // where the first stop string found so far begins
  bool is_stopped_ = false;
};

}  // namespace caption::text
