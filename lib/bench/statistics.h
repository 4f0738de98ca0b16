// bench/statistics.h: percentiles and summaries of measured values.
#pragma once

#include <cstdint>
#include <vector>

namespace caption::bench {

// Percentile with linear interpolation between neighbours, at position percent / 100 * (n - 1) of
// the sorted values, as numpy's default. 0 for no values. 0 <= percent <= 100; throws
// Error(kInternal) otherwise.
double percentile(std::vector<double> values, double percent);

double median(std::vector<double> values);

struct Summary {
  std::int64_t count = 0;
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

Summary summarise(std::vector<double> values);

}  // namespace caption::bench
