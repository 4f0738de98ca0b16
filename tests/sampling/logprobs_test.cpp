// Compares log-probabilities with a full sort; tests ties and logits at the limits of float.
#include "sampling/logprobs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "base/error.h"

namespace caption::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST_SUITE("sampling/logprobs") {
  TEST_CASE("agrees with a full sort, for every number, ties or not") {
    std::mt19937 rng(3);
    std::normal_distribution<float> normal(0, 3);
    for (const std::int32_t vocab : {1, 2, 37, 5000}) {
      for (const float rounding : {0.0F, 0.5F}) {
        std::vector<float> logits(static_cast<std::size_t>(vocab));
        for (float& x : logits) {
          x = normal(rng);
          if (rounding > 0) x = std::round(x / rounding) * rounding;
        }
        double sum = 0;
        for (const float x : logits) sum += std::exp(static_cast<double>(x));
        const auto expected = [&](std::int32_t id) {
          return static_cast<double>(logits[static_cast<std::size_t>(id)]) - std::log(sum);
        };
        std::vector<std::int32_t> order(logits.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
          return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
        });
        for (const std::int32_t num_top : {0, 1, 5, 20, vocab}) {
          if (num_top > vocab) continue;
          CAPTURE(vocab);
          CAPTURE(rounding);
          CAPTURE(num_top);
          const std::int32_t id = vocab / 2;
          const TokenLogprobs found = find_logprobs(logits, id, num_top);
          CHECK(found.chosen.id == id);
          // Doubles around 20 and a sum of 5000 of them: error below 5000 * 2^-53 * 20.
          CHECK(std::abs(found.chosen.logprob - expected(id)) < 1e-11);
          REQUIRE(std::ssize(found.top) == num_top);
          for (std::size_t i = 0; i < found.top.size(); ++i) {
            CHECK(found.top[i].id == order[i]);
            CHECK(std::abs(found.top[i].logprob - expected(order[i])) < 1e-11);
            CHECK(found.top[i].logprob <= 0);
          }
        }
      }
    }
  }

  TEST_CASE("is exact for huge logits, and -inf for an id that is ruled out") {
    const std::vector<float> logits = {-kInf, 3e38F, -3e38F, 3e38F};
    const TokenLogprobs found = find_logprobs(logits, 0, 4);
    CHECK(found.chosen.logprob == -HUGE_VAL);
    CHECK(found.top[0].id == 1);
    CHECK(found.top[0].logprob == doctest::Approx(std::log(0.5)));
    CHECK(found.top[1].id == 3);
    CHECK(found.top[2].id == 2);
    CHECK(found.top[3].id == 0);
    CHECK(find_logprobs(std::vector<float>{7}, 0, 1).chosen.logprob == 0);
  }

  TEST_CASE("an id or a number outside the logits is refused") {
    const std::vector<float> logits(3);
    for (const std::int32_t id : {-1, 3}) CHECK_THROWS_AS(find_logprobs(logits, id, 0), Error);
    for (const std::int32_t num : {-1, 4}) CHECK_THROWS_AS(find_logprobs(logits, 0, num), Error);
  }
}

}  // namespace
}  // namespace caption::sampling
