#include "drafts/internal/few_texts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "drafts/token_archive.h"

namespace caption::drafts {
namespace {

using Ids = std::vector<std::int32_t>;

Ids random_text(std::mt19937& rng, std::uint32_t vocab, std::size_t most) {
  Ids text(1 + rng() % most);
  for (std::int32_t& id : text) id = static_cast<std::int32_t>(rng() % vocab);
  return text;
}

TEST_SUITE("drafts/few_texts") {
  TEST_CASE("few texts are continued as an archive of them continues them") {
    std::mt19937 rng(5);
    for (int round = 0; round < 400; ++round) {
      const std::uint32_t vocab = round % 2 == 0 ? 6 : 60;
      TokenArchive archive(1 << 20);
      FewTexts few;
      std::vector<Ids> texts;
      // No token has more than the 48 places that an archive looks at.
      for (int i = 0; i < 8; ++i) {
        texts.push_back(i > 0 && rng() % 2 == 0 ? texts.back() : random_text(rng, vocab, 20));
        if (vocab == 6) texts.back().resize(std::min<std::size_t>(texts.back().size(), 6));
        archive.add(texts.back());
        few.add(texts.back());
      }
      for (const Ids& text : texts) {
        for (std::size_t length = 0; length <= text.size(); ++length) {
          Ids context(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length));
          if (length > 2 && rng() % 3 == 0) context.erase(context.begin());
          std::vector<Guess> expected;
          std::vector<Guess> guesses;
          archive.guess(context, 8, expected);
          few.guess(context, 8, guesses);
          REQUIRE(guesses.size() == expected.size());
          for (std::size_t i = 0; i < guesses.size(); ++i) {
            CHECK(guesses[i].token == expected[i].token);
            CHECK(guesses[i].match_length == expected[i].match_length);
            CHECK(guesses[i].count == expected[i].count);
            CHECK(guesses[i].total == expected[i].total);
          }
        }
      }
    }
  }

  TEST_CASE("texts beyond the most tokens are ignored, and no text has no guess") {
    FewTexts few;
    std::vector<Guess> guesses = {{.token = 1}};
    few.guess(Ids{}, 8, guesses);
    CHECK(guesses.empty());
    few.add(Ids{});
    few.add(Ids(FewTexts::kMostTokens, 7));
    few.guess(Ids{}, 8, guesses);
    CHECK(guesses.empty());
    few.add(Ids{4, 5});
    few.guess(Ids{}, 8, guesses);
    REQUIRE(guesses.size() == 2);
    CHECK(guesses[0].token == 4);
    CHECK(guesses[1].token == 5);
    few.guess(Ids{5}, 8, guesses);
    CHECK(guesses.empty());
  }
}

}  // namespace
}  // namespace caption::drafts
