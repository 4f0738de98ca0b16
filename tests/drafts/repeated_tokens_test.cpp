#include "drafts/repeated_tokens.h"

#include <doctest/doctest.h>

#include <cstdint>
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
