// bench/internal/run_lengths.h: planted numbers of right guesses.
#pragma once

#include <cmath>
#include <cstdint>

namespace caption::bench {

// Gives the numbers of guesses in a row that are right: each is right with the probability
// `agreement`, of [0, 1), if those before it are, so that a run has k or more with the probability
// agreement^k. The numbers are not drawn independently: they are the quantiles at multiples of the
// golden ratio modulo 1, plus `start`. The share of n numbers that is k or more differs from
// agreement^k by at most (3 + 3.53 ln n) / n (Kuipers and Niederreiter, Uniform Distribution of
// Sequences, 1974, theorem 2.3.4 with partial quotients of 1), not by the order of 1 / sqrt(n).
class RunLengths {
 public:
  RunLengths(double agreement, double start)  // start is in [0, 1)
      : agreement_(agreement), point_(start) {}

  std::int64_t next() {
    point_ += kGoldenRatio;
    if (point_ >= 1) point_ -= 1;
    if (agreement_ <= 0) return 0;
    // 1 - point_ is of (0, 1]; it is at most agreement^k with the probability agreement^k.
    return static_cast<std::int64_t>(std::log(1 - point_) / std::log(agreement_));
  }

 private:
  static constexpr double kGoldenRatio = 0.6180339887498949;
  double agreement_;
  double point_;
};

}  // namespace caption::bench
