#include "drafts/acceptance.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <random>

using namespace caption::drafts;

TEST_CASE("before outcomes, longer matches and larger shares are likelier") {
  const Acceptance acceptance;
  const auto p = [&](std::int32_t length, std::int32_t count, std::int32_t total) {
    return acceptance.probability(
        GuessSource::kArchive,
        {.token = 1, .match_length = length, .count = count, .total = total});
  };
  CHECK(p(1, 10, 10) < p(4, 10, 10));
  CHECK(p(4, 5, 10) < p(4, 10, 10));
  CHECK(p(4, 1, 1) < p(4, 10, 10));
  CHECK(p(1, 1, 40) > 0);
  CHECK(p(40, 40, 40) < 1);
}

TEST_CASE("probabilities follow the outcomes of equal evidence") {
  std::mt19937 rng(1);
  Acceptance acceptance;
  const Guess often = {.token = 1, .match_length = 6, .count = 9, .total = 10};
  const Guess rarely = {.token = 1, .match_length = 1, .count = 3, .total = 10};
  const double before = acceptance.probability(GuessSource::kRepetition, often);
  for (int i = 0; i < 2000; ++i) {
    acceptance.observe(GuessSource::kArchive, often, rng() % 10 < 8);
    acceptance.observe(GuessSource::kArchive, rarely, rng() % 10 < 1);
  }
  // Between 256 and 512 outcomes count: four standard deviations of a mean over 256.
  CHECK(acceptance.probability(GuessSource::kArchive, often) ==
        doctest::Approx(0.8).epsilon(0.125));
  CHECK(acceptance.probability(GuessSource::kArchive, rarely) < 0.1 + 0.075);
  CHECK(acceptance.probability(GuessSource::kRepetition, often) == before);
}
