#include "drafts/repeated_tokens.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

using namespace caption::drafts;

namespace {

using Ids = std::vector<std::int32_t>;

Ids repetition(const Ids& tokens, std::int64_t most = 8) {
  std::vector<Guess> guesses;
  guess_repetition(tokens, most, guesses);
  Ids ids;
  for (const Guess& guess : guesses) ids.push_back(guess.token);
  return ids;
}

}  // namespace

TEST_CASE("a repetition is guessed from the longest earlier match") {
  CHECK(repetition({}).empty());
  CHECK(repetition({1, 2}).empty());
  CHECK(repetition({1, 2, 3, 4}).empty());
  CHECK(repetition({1, 2, 3, 1}).empty());  // one token is a coincidence
  CHECK(repetition({1, 2, 3, 1, 2}) == Ids{3, 1, 2});
  CHECK(repetition({1, 2, 3, 1, 2}, 1) == Ids{3});
  CHECK(repetition({1, 2, 3, 9, 1, 2, 4, 1, 2}) == Ids{4, 1, 2});  // the later place
  CHECK(repetition({5, 1, 2, 3, 9, 1, 2, 4, 5, 1, 2}) ==
        Ids{3, 9, 1, 2, 4, 5, 1, 2});  // the longer
  CHECK(repetition({7, 7, 7}) == Ids{7});
  Ids far(3000, 9);
  far[0] = 1;
  far[1] = 2;
  far.insert(far.end(), {1, 2});
  CHECK(repetition(far).empty());
}

TEST_CASE("a guess of a repetition knows the length of its match") {
  std::vector<Guess> guesses;
  guess_repetition(Ids{1, 2, 3, 4, 1, 2, 3}, 8, guesses);
  REQUIRE(guesses.size() == 4);
  CHECK(guesses[0].match_length == 3);
  CHECK(guesses[3].match_length == 6);
}

TEST_CASE("the place of a repetition is that of a plain search") {
  std::mt19937 rng(11);
  for (int round = 0; round < 2000; ++round) {
    const std::size_t size = rng() % 300;
    const std::int32_t vocab = 2 + static_cast<std::int32_t>(rng() % 60);
    Ids tokens;
    while (tokens.size() < size) tokens.push_back(static_cast<std::int32_t>(rng()) % vocab);
    std::size_t best_place = 0;
    std::size_t best_length = 1;
    for (std::size_t place = size; place-- > 2;) {
      std::size_t length = 0;
      while (length < place && length < 24 &&
             tokens[place - 1 - length] == tokens[size - 1 - length]) {
        ++length;
      }
      if (length <= best_length) continue;
      best_length = length;
      best_place = place;
    }
    const Ids got = repetition(tokens, 1);
    CAPTURE(size);
    CHECK(got == (best_place == 0 ? Ids{} : Ids{tokens[best_place]}));
  }
}
