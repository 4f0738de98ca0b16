#include "drafts/step_costs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>

using namespace caption::drafts;

namespace {

void observe_often(StepCosts& costs, std::int64_t num_tokens, double us) {
  for (int i = 0; i < 8; ++i) costs.observe(num_tokens, us);
}

}  // namespace

TEST_CASE("costs of steps are interpolated and never fall") {
  StepCosts costs;
  CHECK(costs.us(1) == 0);
  costs.observe(1, 100);
  CHECK(costs.us(1) == 100);
  CHECK(costs.us(3) == doctest::Approx(100 * (1 + StepCosts::kUnknownShare * 2)));
  CHECK(costs.us(6) - costs.us(5) == doctest::Approx(100));
  observe_often(costs, 9, 180);
  // Between 7 and 8 observations are trusted, and half a one is not.
  CHECK(costs.us(9) == doctest::Approx(180).epsilon(0.04));
  CHECK(costs.us(5) == doctest::Approx((100 + costs.us(9)) / 2));
  observe_often(costs, 4, 90);  // measured below a smaller step
  CHECK(costs.us(4) == doctest::Approx(90));
  CHECK(costs.us(1) == doctest::Approx(90));
  for (std::int64_t n = 1; n < 100; ++n) CHECK(costs.us(n + 1) >= costs.us(n));
}

TEST_CASE("outliers are bounded") {
  StepCosts costs;
  observe_often(costs, 2, 100);
  costs.observe(8, 1e6);  // counted as 400, in proportion to the tokens
  CHECK(costs.us(8) < 400);
  observe_often(costs, 16, 200);
  costs.observe(16, 1e6);  // counted as 400
  CHECK(costs.us(16) <= 200 + 200 * StepCosts::kWeightOfSlower);
  CHECK(costs.us(8) <= costs.us(16));
}

TEST_CASE("slower times weigh less than faster ones, but for a mean") {
  StepCosts typical;
  StepCosts mean(StepCosts::Average::kMean);
  observe_often(typical, 1, 100);
  observe_often(mean, 1, 100);
  typical.observe(1, 180);
  mean.observe(1, 180);
  CHECK(typical.us(1) == doctest::Approx(105));
  CHECK(mean.us(1) == doctest::Approx(110));
  typical.observe(1, 65);
  mean.observe(1, 30);
  CHECK(typical.us(1) == doctest::Approx(95));
  CHECK(mean.us(1) == doctest::Approx(100));
}

TEST_CASE("a class that is not seen is trusted less and less") {
  StepCosts costs;
  observe_often(costs, 1, 100);
  observe_often(costs, 8, 800);
  const double at_once = costs.us(8);
  CHECK(at_once > 700);
  for (std::int64_t i = 0; i < 10 * StepCosts::kTrusted; ++i) costs.observe(1, 100);
  CHECK(costs.us(8) < 120);
  CHECK(costs.us(1) == 100);
}

TEST_CASE("costs lie between the classes that were seen, in whatever order that was") {
  std::array<std::int64_t, 4> sizes = {1, 3, 41, 701};
  do {
    StepCosts costs;
    for (const std::int64_t size : sizes) {
      CAPTURE(size);
      observe_often(costs, size, 100 + static_cast<double>(size));
    }
    CHECK(costs.us(2) == doctest::Approx((costs.us(1) + costs.us(3)) / 2));
    CHECK(costs.us(22) == doctest::Approx((costs.us(3) + costs.us(41)) / 2));
    CHECK(costs.us(371) == doctest::Approx((costs.us(41) + costs.us(701)) / 2));
    // 640 is of the class of 701, whose mean is larger.
    const double slope = (costs.us(701) - costs.us(41)) / (701 - 41);
    CHECK(costs.us(640) == doctest::Approx(costs.us(41) + slope * (640 - 41)));
    CHECK(costs.us(1100) - costs.us(1099) >= 1);  // as a mean token of the largest step
    for (std::int64_t n = 1; n < 2000; ++n) CHECK(costs.us(n + 1) >= costs.us(n));
  } while (std::next_permutation(sizes.begin(), sizes.end()));
}
