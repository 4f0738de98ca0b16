// sampling/loop_detector.h: detects that an output repeats a cycle of tokens.
//
// A loop is a cycle of 1 to 32 tokens that fills at least the last 64 tokens and at least four
// periods: 64 equal tokens, 16 rounds of a cycle of 4, 4 rounds of a cycle of 17 to 32 (from 68
// tokens on). Captions may repeat words and even sentences, but not for 64 tokens. Only the output
// is examined, so a repetitive prompt does not count.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace caption::sampling {

class LoopDetector {
 public:
  static constexpr std::int64_t kMaxPeriod = 32;
  static constexpr std::int64_t kMinTokens = 64;
  static constexpr std::int64_t kMinRounds = 4;

  // `output` is the whole output so far; call once after each new token. O(kMaxPeriod).
  void observe(std::span<const std::int32_t> output);
  // Shortest period of the loop at the end of the output; 0: no loop.
  std::int64_t period() const { return period_; }

 private:
  // Element p - 1: number of last tokens that equal the token p positions earlier.
  std::array<std::int64_t, kMaxPeriod> num_matches_{};
  std::int64_t period_ = 0;
};

}  // namespace caption::sampling
