// eval/bootstrap.h: seeded random numbers, confidence intervals and derangements, with the same
// results on every machine.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/default_seed.h"

namespace caption::eval {

// The generator SplitMix64. Source: Steele, Lea and Flood 2014, Fast splittable pseudorandom number
// generators. For use by one thread at a time.
class RandomSequence {
 public:
  explicit RandomSequence(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  // Uniform in 0..bound-1, without bias; bound must be > 0.
  std::uint64_t below(std::uint64_t bound);

 private:
  std::uint64_t state_;
};

struct BootstrapOptions {
  std::int64_t num_resamples = 1000;
  std::uint64_t seed = kDefaultSeed;
  double confidence = 0.95;
};

struct Interval {
  double low = 0;
  double high = 0;
};

// Percentile bootstrap over segments (Efron 1979): each resample draws as many segments as there
// are, with replacement, and `combine` computes the score from the sums of their statistics.
//   statistics  [segments, width], row by row
//   combine     (sums [width], number of segments) -> score
// Percentiles are interpolated linearly between neighbours. Equal seeds draw equal resamples, so
// the intervals of several metrics are paired. Returns {0, 0} without segments; throws
// Error(kInternal) when the shapes disagree.
using Combine = std::function<double(std::span<const double> sums, std::int64_t num_segments)>;
Interval bootstrap_interval(std::span<const double> statistics, std::int64_t width,
                            const Combine& combine, const BootstrapOptions& options);

// A permutation of 0..n-1 without a fixed point: one random cycle (Sattolo 1986). Throws
// Error(kUsage) for n < 2.
std::vector<std::int64_t> random_derangement(std::int64_t n, std::uint64_t seed);

}  // namespace caption::eval
