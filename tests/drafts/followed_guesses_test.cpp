#include "drafts/internal/followed_guesses.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "drafts/token_archive.h"

namespace caption::drafts {
namespace {

using Ids = std::vector<std::int32_t>;

// Besides Guess::total, to which texts that have ended belong only where others go on with a guess
// before.
bool are_equal(std::span<const Guess> a, std::span<const Guess> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Guess& x, const Guess& y) {
    return x.token == y.token && x.match_length == y.match_length && x.count == y.count;
  });
}

TEST_SUITE("drafts/followed_guesses") {
  TEST_CASE("guesses hold while an output goes on with them") {
    FollowedGuesses followed;
    CHECK(followed.after(Ids{}).empty());
    const std::vector<Guess> guesses = {{.token = 7, .match_length = 2, .count = 3, .total = 4},
                                        {.token = 8, .match_length = 3, .count = 2, .total = 3},
                                        {.token = 9, .match_length = 4, .count = 1, .total = 2}};
    followed.set(2, guesses);
    CHECK(followed.after(Ids{5}).empty());
    CHECK(followed.after(Ids{5, 6}).empty());  // nothing was added
    CHECK(followed.after(Ids{5, 6, 8}).empty());
    CHECK(followed.after(Ids{5, 6, 7, 8, 9}).empty());  // none is left
    CHECK(are_equal(followed.after(Ids{5, 6, 7}), std::span(guesses).subspan(1)));
    CHECK(are_equal(followed.after(Ids{5, 6, 7, 8}), std::span(guesses).subspan(2)));
  }

  TEST_CASE("guesses that are left are those of another look-up") {
    // The texts are so few that the archive looks at every place, and the ids so many that few
    // contexts are long.
    std::mt19937 rng(7);
    TokenArchive archive(1 << 20);
    for (int text = 0; text < 14; ++text) {
      Ids ids;
      for (int i = 0; i < 12; ++i) ids.push_back(static_cast<std::int32_t>(rng() % 8));
      archive.add(ids);
    }
    int num_compared = 0;
    std::vector<Guess> guesses;
    std::vector<Guess> again;
    for (int round = 0; round < 500; ++round) {
      Ids output;
      for (unsigned i = 0; i < rng() % 8; ++i)
        output.push_back(static_cast<std::int32_t>(rng() % 8));
      archive.guess(output, 8, guesses);
      if (guesses.empty() ||
          guesses[0].total >= static_cast<std::int32_t>(TokenArchive::kFrequent)) {
        continue;
      }
      FollowedGuesses followed;
      followed.set(output.size(), guesses);
      for (std::size_t i = 0; i + 1 < guesses.size(); ++i) {
        output.push_back(guesses[i].token);
        const std::span<const Guess> left = followed.after(output);
        archive.guess(output, std::ssize(left), again);
        REQUIRE(are_equal(left, again));
        ++num_compared;
      }
    }
    CHECK(num_compared > 300);
  }
}

}  // namespace
}  // namespace caption::drafts
