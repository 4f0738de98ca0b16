#include "eval/bootstrap.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "golden.h"

namespace caption::eval {
namespace {

double mean(std::span<const double> sums, std::int64_t n) {
  return sums[0] / static_cast<double>(n);
}

}  // namespace

TEST_SUITE("eval/bootstrap") {
  TEST_CASE("random numbers are those of SplitMix64") {
    // The first three numbers of the reference implementation for seed 1234567.
    RandomSequence random(1234567);
    CHECK(random.next() == 6457827717110365317u);
    CHECK(random.next() == 3203168211198807973u);
    CHECK(random.next() == 9817491932198370423u);
  }

  TEST_CASE("draws below a bound are even") {
    RandomSequence random(3);
    constexpr int kDraws = 60000;
    std::array<int, 6> counts{};
    for (int i = 0; i < kDraws; ++i) ++counts[random.below(6)];
    // Each count is binomial with p = 1/6: five standard deviations are 456.
    for (const int count : counts) CHECK(std::abs(count - kDraws / 6) < 456);
  }

  TEST_CASE("the interval of a mean has the width of its standard error") {
    std::vector<double> values;
    RandomSequence random(5);
    for (int i = 0; i < 400; ++i) values.push_back(static_cast<double>(random.below(1000)) / 999);
    double sum = 0, squares = 0;
    for (const double value : values) {
      sum += value;
      squares += value * value;
    }
    const double n = static_cast<double>(values.size());
    const double centre = sum / n;
    const double error = std::sqrt((squares / n - centre * centre) / n);
    const Interval interval = bootstrap_interval(values, 1, mean, {2000, 20, 0.95});
    // The standard deviation of a percentile of 2000 resamples is about 5 % of the standard error;
    // the tolerance is three times that.
    CHECK(std::abs(interval.low - (centre - 1.96 * error)) < 0.15 * error);
    CHECK(std::abs(interval.high - (centre + 1.96 * error)) < 0.15 * error);
  }

  TEST_CASE("the seed decides, and nothing else") {
    const std::vector<double> values = {0.1, 0.5, 0.2, 0.9, 0.4};
    const Interval a = bootstrap_interval(values, 1, mean, {1000, 1, 0.95});
    const Interval b = bootstrap_interval(values, 1, mean, {1000, 1, 0.95});
    CHECK(a.low == b.low);
    CHECK(a.high == b.high);
    CHECK(a.low < a.high);
    CHECK(a.low >= 0.1);
    CHECK(a.high <= 0.9);
  }

  TEST_CASE("one segment has no spread, and none has no interval") {
    const std::vector<double> one = {0.25};
    CHECK(bootstrap_interval(one, 1, mean, {}).low == 0.25);
    CHECK(bootstrap_interval(one, 1, mean, {}).high == 0.25);
    CHECK(bootstrap_interval({}, 1, mean, {}).high == 0.0);
    CHECK_THROWS_AS(bootstrap_interval(one, 2, mean, {}), Error);
  }

  TEST_CASE("rows of statistics are drawn whole") {
    const std::vector<double> rows = {1, 10, 2, 20, 3, 30};
    const Interval ratio = bootstrap_interval(
        rows, 2, [](std::span<const double> sums, std::int64_t) { return sums[1] / sums[0]; }, {});
    CHECK(ratio.low == 10.0);
    CHECK(ratio.high == 10.0);
  }

  TEST_CASE("a derangement moves everything, by seed") {
    for (const std::int64_t n : {2, 3, 10, 101}) {
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const std::vector<std::int64_t> order = random_derangement(n, seed);
        std::vector<std::int64_t> sorted = order;
        std::sort(sorted.begin(), sorted.end());
        for (std::int64_t i = 0; i < n; ++i) {
          CHECK(sorted[static_cast<std::size_t>(i)] == i);
          CHECK(order[static_cast<std::size_t>(i)] != i);
        }
        CHECK(order == random_derangement(n, seed));
      }
    }
    CHECK(random_derangement(101, 1) != random_derangement(101, 2));
    CHECK_THROWS_AS(random_derangement(1, 0), Error);
  }
}

}  // namespace caption::eval
