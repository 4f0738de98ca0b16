#include "eval/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace caption::eval {
namespace {

double percentile(const std::vector<double>& sorted, double fraction) {
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - std::floor(place)) * (sorted[above] - sorted[below]);
}

}  // namespace

std::uint64_t RandomSequence::next() {
  state_ += 0x9E3779B97F4A7C15u;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

std::uint64_t RandomSequence::below(std::uint64_t bound) {
  // Draws from the incomplete last interval below 2^64 are rejected: they would favour small
  // numbers.
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t limit = kMax - kMax % bound;
  for (;;) {
    const std::uint64_t draw = next();
    if (draw < limit) return draw % bound;
  }
}

Interval bootstrap_interval(std::span<const double> statistics, std::int64_t width,
                            const Combine& combine, const BootstrapOptions& options) {
  const auto columns = static_cast<std::size_t>(width);
  CAPTION_CHECK(width > 0 && statistics.size() % columns == 0,
                "statistics are not a whole number of rows");
  CAPTION_CHECK(options.num_resamples > 0, "a bootstrap needs a resample");
  const std::size_t num_segments = statistics.size() / columns;
  if (num_segments == 0) return {};
  RandomSequence random(options.seed);
  std::vector<double> scores;
  scores.reserve(static_cast<std::size_t>(options.num_resamples));
  std::vector<double> sums(columns);
  for (std::int64_t resample = 0; resample < options.num_resamples; ++resample) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::size_t k = 0; k < num_segments; ++k) {
      const double* row = statistics.data() + random.below(num_segments) * columns;
      for (std::size_t c = 0; c < columns; ++c) sums[c] += row[c];
    }
    scores.push_back(combine(sums, static_cast<std::int64_t>(num_segments)));
  }
  std::sort(scores.begin(), scores.end());
  const double tail = (1.0 - options.confidence) / 2.0;
  return {percentile(scores, tail), percentile(scores, 1.0 - tail)};
}

std::vector<std::int64_t> random_derangement(std::int64_t n, std::uint64_t seed) {
  if (n < 2) {
    throw Error(ErrorCode::kUsage,
                "shuffling needs two captioned clips or more; found " + std::to_string(n));
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  RandomSequence random(seed);
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[static_cast<std::size_t>(random.below(i))]);
  }
  return order;
}

}  // namespace caption::eval
