#include "bench/statistics.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace caption::bench {
namespace {

TEST_SUITE("bench/statistics") {
  TEST_CASE("percentiles are interpolated as numpy's are") {
    struct Case {
      const char* name;
      std::vector<double> values;
      double percent;
      double expected;  // result of numpy.percentile
    };
    const Case kCases[] = {
        {"one value", {7}, 99, 7},
        {"the smallest", {3, 1, 2}, 0, 1},
        {"the largest", {3, 1, 2}, 100, 3},
        {"the middle of an odd count", {5, 1, 3}, 50, 3},
        {"between two", {1, 2}, 50, 1.5},
        {"p90 of ten", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 90, 9.1},
        {"p99 of five", {10, 20, 30, 40, 50}, 99, 49.6},
        {"nothing", {}, 50, 0},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.name);
      CHECK(percentile(c.values, c.percent) == doctest::Approx(c.expected).epsilon(1e-12));
    }
  }

  TEST_CASE("a percentile outside [0, 100] is refused") {
    CHECK_THROWS_AS(percentile({1, 2}, 101), Error);
    CHECK_THROWS_AS(percentile({1, 2}, -1), Error);
  }

  TEST_CASE("a summary has the count, the mean and ascending percentiles") {
    const Summary summary = summarise({4, 1, 3, 2, 100});
    CHECK(summary.count == 5);
    CHECK(summary.mean == doctest::Approx(22));
    CHECK(summary.p50 == 3);
    CHECK(summary.p90 == doctest::Approx(61.6));
    CHECK(summary.p99 == doctest::Approx(96.16));
    CHECK(summarise({}).count == 0);
    CHECK(median({9, 1, 5}) == 5);
  }

  TEST_CASE("the median of an even number of values is the lower of the middle two") {
    CHECK(median_index({9, 1, 5}) == 2);
    CHECK(median_index({9, 1, 5, 3}) == 3);
    CHECK(median_index({2, 1}) == 1);
    CHECK(median_index({4, 4}) == 0);
    CHECK_THROWS_AS(median_index({}), Error);
  }

  TEST_CASE(
      "the interval of a median leaves out as many values as the binomial distribution lets") {
    const auto left_out = [](int count) {
      std::vector<double> values;
      for (int i = 0; i < count; ++i)
        values.push_back((i * 7) % count);  // unsorted: 0 to count - 1
      const MedianInterval interval = median_interval(values);
      CHECK(interval.count == count);
      CHECK(interval.median == doctest::Approx((count - 1) / 2.0));
      CHECK(interval.high == count - 1 - interval.low);
      return interval.low;
    };
    CHECK(left_out(5) == 0);     // 2 P(B(5, 1/2) <= 0) is 6 %
    CHECK(left_out(6) == 0);     // 3 %
    CHECK(left_out(8) == 0);     // 2 P(B <= 1) is 7 %
    CHECK(left_out(9) == 1);     // 3.9 %
    CHECK(left_out(16) == 3);    // 2.1 %; with 4, 7.7 %
    CHECK(left_out(100) == 39);  // tables: the 40th and the 61st value
    CHECK(median_interval({}).count == 0);
    CHECK(median_interval({3}).low == 3);
  }
}

}  // namespace
}  // namespace caption::bench
