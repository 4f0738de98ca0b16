#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace caption::bench {
namespace {

double percentile_of_sorted(const std::vector<double>& sorted, double percent) {
  CAPTION_CHECK(percent >= 0 && percent <= 100, "a percentile lies in [0, 100]");
  if (sorted.empty()) return 0;
  const double position = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = position - static_cast<double>(below);
  return sorted[below] + share * (sorted[above] - sorted[below]);
}

}  // namespace

double percentile(std::vector<double> values, double percent) {
  std::sort(values.begin(), values.end());
  return percentile_of_sorted(values, percent);
}

double median(std::vector<double> values) { return percentile(std::move(values), 50); }

std::size_t median_index(const std::vector<double>& values) {
  CAPTION_CHECK(!values.empty(), "a median of no values");
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  return order[(order.size() - 1) / 2];
}

// With k values left out at either end, the median is outside with the probability
// 2 P(B(n, 1/2) <= k).
MedianInterval median_interval(std::vector<double> values) {
  if (values.empty()) return {};
  constexpr double kOutside = 0.05;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const double log_all = static_cast<double>(n) * std::log(2.0);
  double log_ways = 0;  // log of the binomial coefficient (n, k)
  double below = 0;     // P(B(n, 1/2) <= k)
  std::size_t left_out = 0;
  for (std::size_t k = 0; 2 * k + 1 < n; ++k) {
    below += std::exp(log_ways - log_all);
    if (2 * below > kOutside) break;
    left_out = k;
    log_ways += std::log(static_cast<double>(n - k) / static_cast<double>(k + 1));
  }
  return {.median = percentile_of_sorted(values, 50),
          .low = values[left_out],
          .high = values[n - 1 - left_out],
          .count = static_cast<std::int64_t>(n)};
}

Summary summarise(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {.count = static_cast<std::int64_t>(values.size()),
          .mean = sum / static_cast<double>(values.size()),
          .p50 = percentile_of_sorted(values, 50),
          .p90 = percentile_of_sorted(values, 90),
          .p99 = percentile_of_sorted(values, 99)};
}

}  // namespace caption::bench
