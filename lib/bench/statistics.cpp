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
