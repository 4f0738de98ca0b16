// bench/statistics.h: percentiles and summaries of measured values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace caption::bench {

// Percentile with linear interpolation between neighbours, at position percent / 100 * (n - 1) of
// the sorted values, as numpy's default. 0 for no values. 0 <= percent <= 100; throws
// Error(kInternal) otherwise.
double percentile(std::vector<double> values, double percent);

double median(std::vector<double> values);

// The index of the median; with an even number of values that of the lower of the middle two, so
// that the run of median speed is never a faster one than the median. Throws Error(kInternal) for
// no values.
std::size_t median_index(const std::vector<double>& values);

// The median of a sample, and an interval that contains the median of what the sample is drawn from
// with a probability of at least 95 %, whatever the distribution: two order statistics, by the
// binomial distribution (Conover, Practical Nonparametric Statistics, section 3.2). Fewer than six
// values do not suffice for 95 %, and give the least and the greatest of them.
struct MedianInterval {
  double median = 0;
  double low = 0;
  double high = 0;
  std::int64_t count = 0;  // values
};

// Zeros for no values.
MedianInterval median_interval(std::vector<double> values);

struct Summary {
  std::int64_t count = 0;  // values; without any the other figures are zeros
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

Summary summarise(std::vector<double> values);

}  // namespace caption::bench
