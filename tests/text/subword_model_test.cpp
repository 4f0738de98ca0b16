// BPE and Unigram against plain definitions of what they compute.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/internal/bpe_model.h"
#include "text/internal/unigram_model.h"

namespace caption::text {
namespace {

Vocabulary vocabulary_of(const std::vector<std::string>& texts) {
  Vocabulary vocabulary;
  for (const std::string& text : texts) {
    REQUIRE(vocabulary.insert(text, static_cast<TokenId>(vocabulary.size())) ==
            Vocabulary::Inserted::kYes);
  }
  return vocabulary;
}

std::vector<TokenId> tokenize(const SubwordModel& model, std::string_view word) {
  ModelScratch scratch;
  std::vector<TokenId> ids;
  model.tokenize(word, &scratch, &ids);
  return ids;
}

// Merges as often as possible: each time the pair of the lowest rank, the leftmost of equal ones.
std::vector<TokenId> merge_plainly(std::vector<TokenId> ids,
                                   const std::vector<BpeSpec::Merge>& merges) {
  for (;;) {
    std::size_t best_rank = merges.size();
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      for (std::size_t rank = 0; rank < best_rank; ++rank) {
        if (merges[rank].left == ids[i] && merges[rank].right == ids[i + 1]) {
          best_rank = rank;
          best = i;
        }
      }
    }
    if (best_rank == merges.size()) return ids;
    ids[best] = merges[best_rank].merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

// A vocabulary of the letters a to d and of `num_merges` random merges of its tokens.
struct RandomBpe {
  Vocabulary vocabulary = vocabulary_of({"a", "b", "c", "d"});
  BpeSpec spec;

  RandomBpe(std::mt19937& rng, std::size_t num_merges) {
    while (spec.merges.size() < num_merges) {
      const auto draw = [&] { return static_cast<TokenId>(rng() % vocabulary.size()); };
      const TokenId left = draw();
      const TokenId right = draw();
      const std::string text = std::string(*vocabulary.text(left)).append(*vocabulary.text(right));
      const auto id = static_cast<TokenId>(vocabulary.size());
      if (text.size() > 12 || vocabulary.insert(text, id) != Vocabulary::Inserted::kYes) continue;
      spec.merges.push_back({.left = left, .right = right, .merged = id});
    }
  }
};

TEST_SUITE("text/subword_model") {
  TEST_CASE("words of any length are merged by rank, from the left") {
    std::mt19937 rng(1);
    for (int round = 0; round < 60; ++round) {
      const RandomBpe random(rng, 1 + rng() % 40);
      const BpeModel model(random.spec, random.vocabulary);
      for (const std::size_t length : {0, 1, 2, 7, 47, 48, 49, 50, 130}) {
        std::string word(length, 'a');
        for (char& c : word) c = static_cast<char>('a' + rng() % 4);
        CAPTURE(word);
        std::vector<TokenId> letters;
        for (const char c : word) letters.push_back(c - 'a');
        CHECK(tokenize(model, word) == merge_plainly(letters, random.spec.merges));
      }
    }
  }

  TEST_CASE("of a pair that is listed twice the last rank counts") {
    const Vocabulary vocabulary = vocabulary_of({"a", "b", "ab", "bb"});
    BpeSpec spec;
    spec.merges = {{0, 1, 2}, {1, 1, 3}, {0, 1, 2}};
    const BpeModel model(spec, vocabulary);
    CHECK(tokenize(model, "abb") == std::vector<TokenId>{0, 3});
  }

  TEST_CASE("a word of the vocabulary is one token where merges are ignored") {
    const Vocabulary vocabulary = vocabulary_of({"a", "b", "ab"});
    BpeSpec spec;
    CHECK(tokenize(BpeModel(spec, vocabulary), "ab") == std::vector<TokenId>{0, 1});
    spec.ignores_merges = true;
    CHECK(tokenize(BpeModel(spec, vocabulary), "ab") == std::vector<TokenId>{2});
    CHECK(tokenize(BpeModel(spec, vocabulary), "aba") == std::vector<TokenId>{0, 1, 0});
  }

  TEST_CASE("unknown characters are left out, replaced, fused, or spelled in bytes") {
    const Vocabulary vocabulary = vocabulary_of({"<unk>", "a", "<0xC3>", "<0xA9>", "\u2581"});
    BpeSpec spec;
    const std::string word = "a가나aéa";
    CHECK(tokenize(BpeModel(spec, vocabulary), word) == std::vector<TokenId>{1, 1, 1});
    spec.unknown_id = 0;
    CHECK(tokenize(BpeModel(spec, vocabulary), word) == std::vector<TokenId>{1, 0, 0, 1, 0, 1});
    spec.fuses_unknown = true;
    CHECK(tokenize(BpeModel(spec, vocabulary), word) == std::vector<TokenId>{1, 0, 1, 0, 1});
    spec.falls_back_to_bytes = true;
    CHECK(tokenize(BpeModel(spec, vocabulary), word) == std::vector<TokenId>{1, 0, 1, 2, 3, 1});
    // As in the reference, the unknown token stands at the end of its run.
    CHECK(tokenize(BpeModel(spec, vocabulary), "가é나a") == std::vector<TokenId>{2, 3, 0, 1});
    CHECK(tokenize(BpeModel(spec, vocabulary), "\U0001F600\u2581") == std::vector<TokenId>{0, 4});
  }

  TEST_CASE("a text is cut before marks only when no merge crosses them") {
    // "a" + mark is a token of the second vocabulary.
    const Vocabulary inside = vocabulary_of({"\u2581", "a", "\u2581a", "\u2581\u2581"});
    BpeSpec spec;
    spec.merges = {{0, 1, 2}, {0, 0, 3}};
    CHECK(tokenize(BpeModel(spec, inside), "a\u2581\u2581\u2581a") ==
          std::vector<TokenId>{1, 3, 2});
    const Vocabulary across = vocabulary_of({"\u2581", "a", "a\u2581", "\u2581\u2581"});
    spec.merges = {{1, 0, 2}, {0, 0, 3}};
    CHECK(tokenize(BpeModel(spec, across), "a\u2581\u2581\u2581a") ==
          std::vector<TokenId>{2, 3, 1});
  }

  TEST_CASE("the tokens of a word have the largest sum of scores") {
    const Vocabulary vocabulary =
        vocabulary_of({"<unk>", "a", "b", "c", "d", "cd", "ab", "abc", "abcd", "가나"});
    UnigramSpec spec;
    spec.scores = {0, 0, 0, 0, 0, 1, 2, 5, 10, -1};
    const UnigramModel model(spec, vocabulary);
    CHECK(tokenize(model, "").empty());
    CHECK(tokenize(model, "abcd") == std::vector<TokenId>{8});
    CHECK(tokenize(model, "abcdacdxx") == std::vector<TokenId>{8, 1, 5, 0});
    CHECK(tokenize(model, "x가나다") == std::vector<TokenId>{0, 9, 0});
    CHECK(tokenize(model, "가a") == std::vector<TokenId>{0, 1});
  }

  TEST_CASE("a unigram model spells unknown characters in bytes when it has all of them") {
    const Vocabulary vocabulary = vocabulary_of({"<unk>", "a", "<0xC3>", "<0xA9>"});
    UnigramSpec spec;
    spec.scores = {0, 0, 0, 0};
    spec.falls_back_to_bytes = true;
    const UnigramModel model(spec, vocabulary);
    CHECK(tokenize(model, "aé") == std::vector<TokenId>{1, 2, 3});
    CHECK(tokenize(model, "éé") == std::vector<TokenId>{2, 3, 2, 3});
    CHECK(tokenize(model, "a가") == std::vector<TokenId>{1, 0});
  }

  TEST_CASE("texts and ids of a vocabulary are one to one") {
    Vocabulary vocabulary = vocabulary_of({"a", "b"});
    CHECK(vocabulary.insert("a", 7) == Vocabulary::Inserted::kTextIsKnown);
    CHECK(vocabulary.insert("c", 1) == Vocabulary::Inserted::kIdIsTaken);
    CHECK(vocabulary.insert("c", 7) == Vocabulary::Inserted::kYes);
    CHECK(vocabulary.find("c") == 7);
    CHECK(vocabulary.end_id() == 8);
    CHECK(vocabulary.size() == 3);
    CHECK_FALSE(vocabulary.text(6).has_value());
    CHECK_FALSE(vocabulary.text(8).has_value());
    CHECK_FALSE(vocabulary.find("d").has_value());
    for (TokenId id = 8; id < 3000; ++id) vocabulary.insert(std::to_string(id), id);
    for (TokenId id = 8; id < 3000; ++id) CHECK(vocabulary.find(std::to_string(id)) == id);
  }
}

}  // namespace
}  // namespace caption::text
