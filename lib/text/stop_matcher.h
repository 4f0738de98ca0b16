// text/stop_matcher.h: ends a growing text where the first stop string begins.
//
// Invariant: however the text is divided into pieces, the returned parts concatenate to
// text.substr(0, p), where p is the smallest text.find() of a stop string, or to all of the text
// when it contains none. Each part is returned as early as this allows: only text that may still
// become a stop string is held back, at most the length of the longest one minus one byte.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caption::text {

// For use by one thread at a time. Time per byte: amortised constant for each stop string.
// Source: Knuth, Morris and Pratt 1977, Fast pattern matching in strings.
class StopMatcher {
 public:
  // Without stop strings the whole text passes. Throws Error(kUsage) for a stop string that is
  // empty or not valid UTF-8.
  explicit StopMatcher(std::span<const std::string> stop_strings);

  // Adds a piece of complete characters (from IncrementalDecoder). Returns the text that is certain
  // to precede any stop string, also in complete characters; often empty, and always empty after
  // the stop.
  std::string push(std::string_view piece);
  // Ends the input: returns the rest, and confirms a stop that an earlier, longer one could still
  // have replaced ("c" found inside what could have become "abcd").
  std::string finish();

  // True when a stop string was found; the returned text is then complete.
  bool is_stopped() const { return is_stopped_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<std::int64_t> borders;  // [i]: longest proper prefix of text[0..i] that is a suffix
    std::int64_t num_matched = 0;       // length of the prefix of `text` that ends the input
  };

  void observe(Pattern& pattern, std::string_view piece);
  std::string release(std::int64_t end);

  std::vector<Pattern> patterns_;
  std::string held_;                  // the input after its first num_released_ bytes
  std::int64_t num_released_ = 0;     // bytes returned so far
  std::int64_t num_seen_ = 0;         // bytes pushed so far
  std::optional<std::int64_t> stop_;  // start of the first stop string found so far, in bytes
  bool is_stopped_ = false;
};

}  // namespace caption::text
