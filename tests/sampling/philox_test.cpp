// Compares the generator with its authors' known answers, and tests the draws.
#include "sampling/philox.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

namespace caption::sampling {
namespace {

TEST_SUITE("sampling/philox") {
  TEST_CASE("gives the known answers of Random123's kat_vectors (philox4x32, 10 rounds)") {
    struct Case {
      PhiloxCounter counter;
      PhiloxKey key;
      PhiloxCounter expected;
    };
    constexpr Case kCases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (const Case& c : kCases) CHECK(philox4x32_10(c.counter, c.key) == c.expected);
  }

  TEST_CASE("draws lie in [0, 1), differ by seed and index, and have a uniform's moments") {
    constexpr int kNumDraws = 100'000;
    std::set<double> distinct;
    double sum = 0;
    double sum_of_squares = 0;
    for (int i = 0; i < kNumDraws; ++i) {
      const auto idx = static_cast<std::uint64_t>(i);
      const double u = uniform_draw(/*seed=*/idx % 7 << 40, idx / 7);
      CHECK(u >= 0);
      CHECK(u < 1);
      distinct.insert(u);
      sum += u;
      sum_of_squares += u * u;
    }
    CHECK(distinct.size() == kNumDraws);
    // The tolerance is five standard errors of the means of U and U^2: sqrt(1/12) and sqrt(4/45)
    // over sqrt(n).
    CHECK(std::abs(sum / kNumDraws - 1.0 / 2) < 5 * std::sqrt(1.0 / 12 / kNumDraws));
    CHECK(std::abs(sum_of_squares / kNumDraws - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / kNumDraws));
  }
}

}  // namespace
}  // namespace caption::sampling
