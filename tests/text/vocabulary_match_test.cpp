// Vocabularies are matched by the bytes of their tokens.
#include "text/vocabulary_match.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"

namespace caption::text {
namespace {

// A tokenizer of these tokens; empty ones are special, and "<..>" are bytes of a fallback.
class ListedTokens final : public Tokenizer {
 public:
  explicit ListedTokens(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {}

  std::vector<TokenId> encode(std::string_view, AddedTokens, AddedEnds) const override {
    return {};
  }
  std::string decode(std::span<const TokenId>) const override { return {}; }
  std::string token_bytes(TokenId id) const override {
    const std::string& token = tokens_.at(static_cast<std::size_t>(id));
    return is_byte_fallback(id) ? token.substr(1, 1) : token;
  }
  bool strips_leading_space() const override { return false; }
  bool is_byte_fallback(TokenId id) const override {
    const std::string& token = tokens_.at(static_cast<std::size_t>(id));
    return token.size() == 3 && token.front() == '<';
  }
  std::int32_t vocab_size() const override { return static_cast<std::int32_t>(tokens_.size()); }
  std::optional<TokenId> find_token(std::string_view) const override { return std::nullopt; }
  std::optional<TokenId> bos_id() const override { return std::nullopt; }
  std::optional<TokenId> eos_id() const override { return std::nullopt; }

 private:
  std::vector<std::string> tokens_;
};

using Ids = std::vector<TokenId>;

TEST_SUITE("text/vocabulary match") {
  TEST_CASE("equal vocabularies match id by id, also where two tokens have the same bytes") {
    const ListedTokens one({"", "a", "b", "<b>", "a", "ab"});
    const Ids ends = {0};
    const VocabularyMatch match = match_vocabularies(one, ends, one, ends);
    CHECK(match.to_other == Ids{0, 1, 2, 3, 4, 5});
    CHECK(match.from_other == match.to_other);
  }

  TEST_CASE("a permuted superset is mapped, and its own tokens have no match") {
    std::vector<std::string> tokens = {""};
    for (char c = 'a'; c <= 'z'; ++c) tokens.push_back(std::string(1, c) + "x");
    std::vector<std::string> others = tokens;
    others.insert(others.end(), {"more", "tokens", ""});
    std::mt19937 rng(4);
    std::shuffle(others.begin(), others.end(), rng);
    const auto end = std::find(others.begin(), others.end(), "") - others.begin();
    const Ids ends = {0};
    const Ids other_ends = {static_cast<TokenId>(end)};
    const VocabularyMatch match =
        match_vocabularies(ListedTokens(tokens), ends, ListedTokens(others), other_ends);
    CHECK(match.to_other[0] == other_ends[0]);
    CHECK(match.from_other[static_cast<std::size_t>(end)] == 0);
    for (std::size_t id = 1; id < tokens.size(); ++id) {
      const auto other = static_cast<std::size_t>(match.to_other[id]);
      CHECK(others[other] == tokens[id]);
      CHECK(match.from_other[other] == static_cast<TokenId>(id));
    }
    CHECK(std::count(match.from_other.begin(), match.from_other.end(), -1) == 3);
  }

  TEST_CASE("a token that the other vocabulary lacks is named") {
    const ListedTokens one({"", "a", "b", "c"});
    const ListedTokens other({"", "a", "<b>"});
    CHECK_THROWS_WITH_AS(match_vocabularies(one, {}, other, {}),
                         "its vocabulary lacks 2 tokens of the model's 4, the first of them \"b\"",
                         Error);
    const Ids first = {0};
    // An end without a counterpart has no match.
    const VocabularyMatch match = match_vocabularies(other, first, other, {});
    CHECK(match.to_other == Ids{-1, 1, 2});
  }
}

}  // namespace
}  // namespace caption::text
