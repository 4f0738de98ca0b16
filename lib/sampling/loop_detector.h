// sampling/loop_detector.h: notices that an output has fallen into a cycle it will not leave.
//
// A loop is a cycle of 1 to 32 tokens that fills the last 64 tokens or more, at least four times
// over: 64 equal tokens, 16 rounds of a cycle of 4, 4 rounds of one of 17 to 32 (from 68 tokens).
// Captions repeat words and even sentences; 64 tokens that add nothing are far beyond that. Watches
// the output only, so a repetitive prompt does not count.
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

  // `output` is all output so far; called once after each new token. O(kMaxPeriod).
  void observe(std::span<const std::int32_t> output);
  // The shortest period of the loop the output is in; 0: none.
  std::int64_t period() const { return period_; }

 private:
  // By period - 1: how many of the last tokens equal the token one period earlier.
  std::array<std::int64_t, kMaxPeriod> num_matches_{};
  std::int64_t period_ = 0;
};

}  // namespace caption::sampling
