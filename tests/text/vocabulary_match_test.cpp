// Vocabularies are matched by the bytes of their tokens.
#include "text/vocabulary_match.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/listed_tokens.h"

namespace caption::text {
namespace {

using testing::ListedTokens;
using Ids = std::vector<TokenId>;

Ids to_other(const VocabularyMatch& match, TokenId id) {
  const auto ids = match.to_other(id);
  return {ids.begin(), ids.end()};
}

TEST_SUITE("text/vocabulary match") {
  TEST_CASE("equal vocabularies match id by id, also where two tokens have the same bytes") {
    const ListedTokens one({"", "a", "b", "<b>", "a", "ab"});
    const Ids ends = {0};
    const VocabularyMatch match = match_vocabularies(one, ends, one, ends);
    const VocabularyMatch identity = VocabularyMatch::identity(6);
    for (TokenId id = 0; id < 6; ++id) {
      CHECK(to_other(match, id) == Ids{id});
      CHECK(match.from_other(id) == id);
      CHECK(to_other(identity, id) == Ids{id});
      CHECK(identity.from_other(id) == id);
    }
    for (const TokenId id : {-1, 6}) {
      CHECK(to_other(match, id).empty());
      CHECK(match.from_other(id) == -1);
    }
    CHECK(match.num_same() == 5);
    CHECK(match.num_spelled() + match.num_lost() == 0);
  }

  TEST_CASE("a permuted superset is mapped, and its own tokens have no match") {
    std::vector<std::string> tokens = {""};
    for (char c = 'a'; c <= 'z'; ++c) tokens.push_back(std::string(1, c) + "x");
    std::vector<std::string> others = tokens;
    others.insert(others.end(), {"more", "tokens", ""});
    std::mt19937 rng(4);
    std::shuffle(others.begin(), others.end(), rng);
    const auto end =
        static_cast<TokenId>(std::find(others.begin(), others.end(), "") - others.begin());
    const Ids ends = {0};
    const Ids other_ends = {end};
    const VocabularyMatch match =
        match_vocabularies(ListedTokens(tokens), ends, ListedTokens(others), other_ends);
    CHECK(to_other(match, 0) == other_ends);
    CHECK(match.from_other(end) == 0);
    for (std::size_t id = 1; id < tokens.size(); ++id) {
      const Ids other = to_other(match, static_cast<TokenId>(id));
      REQUIRE(other.size() == 1);
      CHECK(others[static_cast<std::size_t>(other[0])] == tokens[id]);
      CHECK(match.from_other(other[0]) == static_cast<TokenId>(id));
    }
    std::int64_t num_without = 0;
    for (std::size_t id = 0; id < others.size(); ++id) {
      num_without += match.from_other(static_cast<TokenId>(id)) == -1 ? 1 : 0;
    }
    CHECK(num_without == 3);
  }

  TEST_CASE("a token that the other vocabulary lacks is written with its longest tokens") {
    const ListedTokens one({"", "ab", "abcd", "bx", "<b>", "c", "\xED\x95\x9C"});
    const ListedTokens other({"", "a", "ab", "abc", "b", "c", "d", "<x>", "\xED\x95"});
    const VocabularyMatch match = match_vocabularies(one, {}, other, {});
    CHECK(to_other(match, 0).empty());
    CHECK(to_other(match, 1) == Ids{2});
    CHECK(to_other(match, 2) == Ids{3, 6});
    CHECK(to_other(match, 3) == Ids{4, 7});  // the byte of a fallback
    CHECK(to_other(match, 4) == Ids{4});     // a fallback's byte as a character
    CHECK(to_other(match, 5) == Ids{5});
    CHECK(to_other(match, 6).empty());  // its last byte is in no token
    const auto from = [&](TokenId id) { return match.from_other(id); };
    CHECK(from(2) == 1);
    CHECK(from(5) == 5);
    for (const TokenId id : {0, 1, 3, 4, 6, 7, 8}) CHECK(from(id) == -1);
    CHECK(match.num_same() == 2);
    CHECK(match.num_spelled() == 3);
    CHECK(match.num_lost() == 1);
    const Ids first = {0};
    // An end without a counterpart has no match.
    CHECK(to_other(match_vocabularies(one, first, other, {}), 0).empty());
  }

  TEST_CASE("what is written has the bytes of the token, in random vocabularies") {
    std::mt19937 rng(7);
    const auto random_tokens = [&](std::size_t count) {
      std::vector<std::string> tokens = {""};
      for (char c = 'a'; c <= 'd'; ++c) tokens.push_back(std::string(1, c));
      while (tokens.size() < count) {
        std::string token;
        for (std::size_t i = rng() % 7 + 2; i > 0; --i) token += static_cast<char>('a' + rng() % 4);
        tokens.push_back(token);
      }
      return tokens;
    };
    for (int round = 0; round < 50; ++round) {
      const std::vector<std::string> tokens = random_tokens(40);
      const std::vector<std::string> others = random_tokens(60);
      const VocabularyMatch match =
          match_vocabularies(ListedTokens(tokens), {}, ListedTokens(others), {});
      for (std::size_t id = 1; id < tokens.size(); ++id) {
        std::string written;
        for (const TokenId other : to_other(match, static_cast<TokenId>(id))) {
          written += others[static_cast<std::size_t>(other)];
        }
        CHECK(written == tokens[id]);
      }
      for (std::size_t id = 1; id < others.size(); ++id) {
        const TokenId same = match.from_other(static_cast<TokenId>(id));
        if (same >= 0) CHECK(tokens[static_cast<std::size_t>(same)] == others[id]);
      }
      CHECK(match.num_lost() == 0);
    }
  }

  TEST_CASE("vocabularies without a common token are refused") {
    CHECK_THROWS_WITH_AS(
        match_vocabularies(ListedTokens({"", "ab", "c"}), {}, ListedTokens({"", "a", "b"}), {}),
        "its vocabulary has none of the model's 3 tokens, so that it cannot guess them", Error);
  }
}

}  // namespace
}  // namespace caption::text
