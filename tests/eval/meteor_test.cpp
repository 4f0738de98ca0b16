#include "eval/meteor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "eval/meteor_coco.h"
#include "eval/ngram_metrics.h"
#include "golden.h"

namespace caption::eval {
namespace {

Tokens split(const std::string& text) {
  Tokens tokens;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin) tokens.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return tokens;
}

Tokens lower(Tokens tokens) {  // only the example of NLTK's documentation has capitals
  for (std::string& token : tokens) {
    for (char& c : token) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
  }
  return tokens;
}

MeteorScore score(MeteorVocabulary& vocabulary, const std::vector<std::string>& references,
                  const std::string& hypothesis, Tokens (*tokenise)(std::string_view)) {
  std::vector<MeteorSentence> sentences;
  for (const std::string& text : references) {
    sentences.push_back(vocabulary.sentence(tokenise(text)));
  }
  return meteor(vocabulary.sentence(tokenise(hypothesis)), sentences);
}

Tokens split_lower(std::string_view text) { return lower(split(std::string(text))); }

// The METEOR 1.5 score of one segment.
double meteor15(const JsonObject& c, Tokens (*tokenise)(std::string_view),
                const Meteor15Parameters& parameters) {
  WordTable words;
  std::vector<WordIds> references;
  for (const std::string& text : c.get_strings("references")) {
    references.push_back(words.ids(tokenise(text)));
  }
  const WordIds hypothesis = words.ids(tokenise(c.require_string("hypothesis")));
  return meteor15_score(meteor15_best(hypothesis, references, parameters), parameters);
}

}  // namespace

TEST_SUITE("eval/meteor") {
  TEST_CASE("equals NLTK on exact matches") {
    for (const JsonObject& c : golden("nltk_meteor.json").get_objects("cases")) {
      const std::string hypothesis = c.require_string("hypothesis");
      CAPTURE(hypothesis);
      MeteorVocabulary vocabulary;
      check_close(score(vocabulary, c.get_strings("references"), hypothesis, split_lower).score,
                  c.get_double("score", -1));
    }
  }

  TEST_CASE("equals the table of eval.md, matches and chunks too") {
    struct Case {
      const char* reference;
      const char* hypothesis;
      double score;
      std::int64_t num_matches;
      std::int64_t num_chunks;
    };
    const Case cases[] = {
        {"푸른 하늘이 보이고 바다가 넓게 펼쳐져 있다 .", "푸른 하늘 아래 넓은 바다가 펼쳐져 있다 .",
         0.5575, 5, 3},
        {"사람들이 길을 걷고 있다", "사람들이 길을 걷고 있다", 0.9921875, 4, 1},
        {"a b a c", "a c b a", 0.7890625, 4, 3},
        {"도시의 야경을 항공에서 촬영한 영상이다", "항공 촬영한 도시 야경 영상", 0.1, 1, 1},
    };
    for (const Case& c : cases) {
      CAPTURE(c.reference);
      MeteorVocabulary vocabulary;
      const MeteorScore found = score(vocabulary, {c.reference}, c.hypothesis, split_lower);
      check_close(found.score, c.score);
      CHECK(found.num_matches() == c.num_matches);
      CHECK(found.num_chunks == c.num_chunks);
    }
  }

  TEST_CASE("meteor-ko equals the table of eval.md") {
    struct Case {
      const char* reference;
      const char* hypothesis;
      double score;
      std::int64_t num_matches, num_exact, num_chunks;
    };
    const Case cases[] = {
        {"푸른 하늘이 보이고 바다가 넓게 펼쳐져 있다", "푸른 하늘 아래 넓은 바다가 펼쳐져 있다",
         0.7301587301587301, 6, 4, 4},
        {"도시의 야경을 항공에서 촬영한 영상이다", "항공 촬영한 도시 야경 영상", 0.892, 5, 1, 3},
        {"파도가 밀려오는 해변에 모래사장이 보인다", "해변의 모래사장으로 파도가 밀려온다",
         0.7653061224489797, 4, 1, 2},
        {"높은 건물들이 늘어선 도시를 드론으로 촬영한 영상이다",
         "드론이 건물이 늘어선 도시의 모습을 촬영하고 있다", 0.6371428571428571, 5, 1, 3},
    };
    const KoreanStemmer stemmer;
    if (stemmer.mode() != StemmerMode::kHunspell) {
      MESSAGE("hunspell-ko is not installed: meteor-ko's goldens are left out");
      return;
    }
    for (const Case& c : cases) {
      CAPTURE(c.reference);
      MeteorVocabulary vocabulary(&stemmer, nullptr);
      const MeteorScore found = score(vocabulary, {c.reference}, c.hypothesis, eojeol_tokens);
      check_close(found.score, c.score);
      CHECK(found.num_matches() == c.num_matches);
      CHECK(found.num_exact == c.num_exact);
      CHECK(found.num_chunks == c.num_chunks);
      // Appended punctuation does not change the score.
      const std::string dotted = std::string(c.hypothesis) + " !";
      check_close(score(vocabulary, {c.reference}, dotted, eojeol_tokens).score, c.score);
    }
  }

  TEST_CASE("meteor-ko equals NLTK's formula on sets of hunspell stems, for random captions") {
    const KoreanStemmer stemmer;
    if (stemmer.mode() != StemmerMode::kHunspell ||
        stemmer.identity().version.find(" 0.7.92 ") == std::string::npos) {
      MESSAGE("hunspell-ko 0.7.92 is not installed: meteor-ko's random captions are left out");
      return;
    }
    const std::vector<JsonObject> pairs = golden("ko_meteor.json").get_objects("pairs");
    CHECK(pairs.size() == 100);
    for (const JsonObject& c : pairs) {
      const std::string hypothesis = c.require_string("hypothesis");
      CAPTURE(hypothesis);
      MeteorVocabulary vocabulary(&stemmer, nullptr);
      const MeteorScore found =
          score(vocabulary, {c.require_string("reference")}, hypothesis, eojeol_tokens);
      check_close(found.score, c.get_double("score", -1));
      CHECK(found.num_matches() == c.require_int("matches", 0, 1000));
      CHECK(found.num_exact == c.require_int("exact", 0, 1000));
      CHECK(found.num_chunks == c.require_int("chunks", 0, 1000));
    }
  }

  TEST_CASE("josa mode matches nouns but not verbs") {
    const KoreanStemmer stemmer("/nonexistent/ko");
    MeteorVocabulary vocabulary(&stemmer, nullptr);
    const MeteorScore found = score(vocabulary, {"하늘이 흐르고"}, "하늘을 흐르는", eojeol_tokens);
    CHECK(found.num_stem == 1);
    CHECK(found.num_matches() == 1);
  }

  TEST_CASE("synonyms are the third stage") {
    const auto folder = fresh_folder("meteor_synonyms");
    const Synonyms synonyms =
        Synonyms::open(write_file(folder / "s.tsv", "# groups\n바다\t해양\n\n산\t산악\n"));
    const KoreanStemmer stemmer("/nonexistent/ko");
    MeteorVocabulary vocabulary(&stemmer, &synonyms);
    const MeteorScore found =
        score(vocabulary, {"바다가 도시를"}, "해양은 도시에서", eojeol_tokens);
    CHECK(found.num_exact == 0);
    CHECK(found.num_stem == 1);
    CHECK(found.num_synonym == 1);
    check_close(found.score, 1.0 - 0.5 / 8.0);
    CHECK_THROWS_WITH_AS(Synonyms::open(write_file(folder / "bad.tsv", "바다\t해양\n산\n")),
                         doctest::Contains("bad.tsv:2"), Error);
  }

  TEST_CASE("nothing scores nothing") {
    MeteorVocabulary vocabulary;
    CHECK(score(vocabulary, {"하늘"}, "", split_lower).score == 0.0);
    CHECK(score(vocabulary, {""}, "하늘", split_lower).score == 0.0);
    CHECK(score(vocabulary, {""}, "", split_lower).score == 0.0);
    CHECK(score(vocabulary, {}, "하늘", split_lower).score == 0.0);
    CHECK(score(vocabulary, {"하늘"}, "바다", split_lower).score == 0.0);
  }

  TEST_CASE("meteor-hf equals evaluate's METEOR") {
    const std::vector<JsonObject> pairs = golden("hf_meteor.json").get_objects("pairs");
    CHECK(pairs.size() == 220);
    for (const JsonObject& c : pairs) {
      MeteorVocabulary vocabulary;
      const MeteorScore found = score(vocabulary, {c.require_string("reference")},
                                      c.require_string("hypothesis"), nltk_word_tokens);
      check_close(found.score, c.get_double("score", -1));
    }
  }
}

TEST_SUITE("eval/meteor_coco") {
  TEST_CASE("equals meteor-1.5.jar on tokens, repeated ones too") {
    for (const JsonObject& c : golden("meteor15.json").get_objects("tokens")) {
      const std::string hypothesis = c.require_string("hypothesis");
      CAPTURE(hypothesis);
      check_close(meteor15(c, split_lower, kMeteor15Other), c.get_double("other", -1));
    }
  }

  TEST_CASE("equals meteor-1.5.jar -norm on Korean text") {
    for (const JsonObject& c : golden("meteor15.json").get_objects("syllables")) {
      const std::string hypothesis = c.require_string("hypothesis");
      CAPTURE(hypothesis);
      check_close(meteor15(c, syllable_tokens, kMeteor15English), c.get_double("english", -1));
    }
  }

  TEST_CASE("equals pycocoevalcap on captions with punctuation") {
    const JsonObject file = golden("meteor15.json");
    Meteor15Statistics sums;
    for (const JsonObject& c : file.get_objects("captions")) {
      const std::string hypothesis = c.require_string("hypothesis");
      CAPTURE(hypothesis);
      check_close(meteor15(c, syllable_tokens, kMeteor15English), c.get_double("english", -1));
      WordTable words;
      const WordIds h = words.ids(syllable_tokens(hypothesis));
      const WordIds r = words.ids(syllable_tokens(c.get_strings("references").front()));
      const Meteor15Statistics s = meteor15_align(h, r);
      sums.hypothesis_length += s.hypothesis_length;
      sums.reference_length += s.reference_length;
      sums.num_matches += s.num_matches;
      sums.num_chunks += summed_chunks(s);
    }
    check_close(meteor15_score(sums), file.get_double("captions_aggregate", -1));
  }

  TEST_CASE("nothing scores nothing, and a perfect match scores one") {
    const WordIds words = {1, 2, 3};
    CHECK(meteor15_score(meteor15_align(words, {})) == 0.0);
    CHECK(meteor15_score(meteor15_align({}, words)) == 0.0);
    CHECK(meteor15_score(meteor15_align({}, {})) == 0.0);
    check_close(meteor15_score(meteor15_align(words, words)), 1.0);
  }

  TEST_CASE("a caption that repeats one syllable is aligned in reasonable time") {
    const WordIds same(700, 7);
    const Meteor15Statistics statistics = meteor15_align(same, same);
    CHECK(statistics.num_matches == 700);
  }

  // The figures are those of a search that offers every match of every path to the beam.
  TEST_CASE(
      "words that are there more often than the beam is wide are aligned as by a full search") {
    struct Case {
      std::uint32_t num_kinds;
      std::int64_t num_matches;
      std::int64_t num_chunks;
    };
    for (const Case& c : {Case{1, 260, 1}, {2, 260, 49}, {3, 260, 91}, {5, 256, 150}}) {
      CAPTURE(c.num_kinds);
      std::uint32_t state = 1;
      const auto words = [&](std::size_t count) {
        WordIds ids;
        while (ids.size() < count) {
          state = state * 1103515245u + 12345u;
          ids.push_back(static_cast<std::int32_t>((state >> 16) % c.num_kinds));
        }
        return ids;
      };
      const WordIds hypothesis = words(300);
      const WordIds reference = words(260);
      const Meteor15Statistics found = meteor15_align(hypothesis, reference);
      CHECK(found.num_matches == c.num_matches);
      CHECK(found.num_chunks == c.num_chunks);
    }
  }
}

}  // namespace caption::eval
