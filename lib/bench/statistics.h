// bench/statistics.h: what a list of measured times or rates comes to.
#pragma once

#include <cstdint>
#include <vector>

namespace caption::bench {

// The value below which a share `percent` of the sorted values lies, interpolated between
// neighbours: at position percent / 100 * (n - 1), as numpy's default. 0 for no values.
// 0 <= percent <= 100; throws Error(kInternal) otherwise.
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
