#include "eval/tokenise.h"

#include <doctest/doctest.h>

#include <string>

#include "golden.h"

namespace caption::eval {
namespace {

struct Case {
  const char* name;
  const char* text;
  Tokens tokens;
};

}  // namespace

TEST_SUITE("eval/tokenise") {
  TEST_CASE("eojeol lose punctuation, symbols and case") {
    const Case cases[] = {
        {"empty", "", {}},
        {"only punctuation", " ... !? ", {}},
        {"plain", "푸른 하늘이 보인다.", {"푸른", "하늘이", "보인다"}},
        {"no space after the period", "다.다음", {"다", "다음"}},
        {"quotes and brackets", "“하늘”(바다) 〈산〉", {"하늘", "바다", "산"}},
        {"Latin and digits", "CCTV가 2개의 4K", {"cctv가", "2개의", "4k"}},
        {"decimal point splits", "3.5m", {"3", "5m"}},
        {"emoji with joiners and variation selectors",
         "☺️ 👨‍👩‍👧 좋아",
         {"좋아"}},
        {"zero-width space vanishes", "하\u200B늘", {"하늘"}},
        {"ideographic and no-break space", "하늘\u3000바다\u00A0산", {"하늘", "바다", "산"}},
        {"control character", "하늘\u0001바다", {"하늘", "바다"}},
        {"invalid UTF-8 becomes a symbol", "하늘\xFF바다", {"하늘", "바다"}},
    };
    for (const Case& c : cases) {
      CAPTURE(c.name);
      CHECK(eojeol_tokens(c.text) == c.tokens);
    }
  }

  TEST_CASE("NFD and NFC give the same eojeol and syllables") {
    const std::string nfd = "\u1112\u1161\u1102\u1173\u11AF\u110B\u1175";  // 하늘이
    CHECK(eojeol_tokens(nfd) == Tokens{"하늘이"});
    CHECK(syllable_tokens(nfd) == Tokens{"하", "늘", "이"});
  }

  TEST_CASE("syllables follow METEOR's normaliser") {
    const Case cases[] = {
        {"Hangul", "푸른 하늘이.", {"푸", "른", "하", "늘", "이"}},
        {"Latin word, particle", "CCTV가", {"cctv", "가"}},
        {"decimal number", "3.5m, 1,000명", {"3.5m", "1,000", "명"}},
        {"clitic", "man's dog", {"man", "'s", "dog"}},
        {"hyphen", "full-frame", {"full", "frame"}},
        {"symbols are words", "90% ~ 산", {"90", "%", "~", "산"}},
        {"final period of a number", "3.", {"3"}},
        {"leading period", ".5", {"5"}},
    };
    for (const Case& c : cases) {
      CAPTURE(c.name);
      CHECK(syllable_tokens(c.text) == c.tokens);
    }
  }

  TEST_CASE("words are those of nltk.word_tokenize") {
    for (const JsonObject& c : golden("hf_meteor.json").get_objects("tokens")) {
      const std::string text = c.require_string("text");
      CAPTURE(text);
      CHECK(nltk_word_tokens(text) == c.get_strings("tokens"));
    }
  }

  TEST_CASE("a long run of any character is tokenised in linear time") {
    for (const char* piece : {".", "'", "\"", "`", ":", "(", "a", "다.", ". ", "' ", "-"}) {
      CAPTURE(piece);
      std::string text;
      for (int i = 0; i < 20000; ++i) text += piece;
      CHECK(nltk_word_tokens(text).size() <= text.size());
      CHECK(syllable_tokens(text).size() <= text.size());
      CHECK(eojeol_tokens(text).size() <= text.size());
    }
  }
}

}  // namespace caption::eval
