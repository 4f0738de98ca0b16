// Texts are cut at stop strings, however they are divided into pieces.
#include "text/stop_matcher.h"
#include "text/incremental_decoder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

namespace caption::text {
namespace {

using Strings = std::vector<std::string>;

// The returned text for each piece, then that of finish().
Strings run(const Strings& stops, const Strings& pieces) {
  StopMatcher matcher(stops);
  Strings shown;
  for (const std::string& piece : pieces) shown.push_back(matcher.push(piece));
  shown.push_back(matcher.finish());
  return shown;
}

std::string join(const Strings& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

// The expected text, by definition.
std::string cut(const std::string& text, const Strings& stops) {
  std::size_t end = text.size();
  for (const std::string& stop : stops) end = std::min(end, text.find(stop));
  return text.substr(0, end);
}

// Number of bytes that must be held back: the longest suffix of the text that is a proper prefix of
// a stop string.
std::size_t num_held(const std::string& text, const Strings& stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) {
    for (std::size_t n = 1; n < stop.size() && n <= text.size(); ++n) {
      if (text.compare(text.size() - n, n, stop, 0, n) == 0) longest = std::max(longest, n);
    }
  }
  return longest;
}

TEST_SUITE("text/stop_matcher") {
  TEST_CASE("holds back what may become a stop string, and shows it when it does not") {
    struct Case {
      const char* name;
      Strings stops;
      Strings pieces;
      Strings shown;
    };
    const Case cases[] = {
        {"none", {}, {"가", "나"}, {"가", "나", ""}},
        {"one, in pieces", {"###"}, {"a#", "#b", "##", "#", "c"}, {"a", "##b", "", "", "", ""}},
        {"at the very start", {"끝"}, {"끝났다"}, {"", ""}},
        {"never completed", {"끝."}, {"이것은 끝"}, {"이것은 ", "끝"}},
        {"a false start in its own repetition",
         {"aab"},
         {"a", "a", "a", "b"},
         {"", "", "a", "", ""}},
        {"two in one piece: the first", {"x", "y"}, {"aybxc"}, {"a", ""}},
        {"the longer begins first and completes", {"c", "abcd"}, {"abc", "d"}, {"", "", ""}},
        {"the longer begins first and does not", {"c", "abcd"}, {"abc", "e"}, {"", "ab", ""}},
        {"the text ends before that is known", {"c", "abcd"}, {"zabc"}, {"z", "ab"}},
        {"one string begins another", {"\n\n", "\n\nQ:"}, {"A\n", "\nQ: 왜"}, {"A", "", ""}},
        {"nothing after the stop", {"."}, {"하나", ".", " 둘", "."}, {"하나", "", "", "", ""}},
        {"empty pieces", {"ab"}, {"", "a", "", "c"}, {"", "", "", "ac", ""}},
    };
    for (const Case& c : cases) {
      CAPTURE(std::string(c.name));
      CHECK(run(c.stops, c.pieces) == c.shown);
      CHECK(join(c.shown) == cut(join(c.pieces), c.stops));
    }
  }

  TEST_CASE("tells that it stopped as soon as that is certain") {
    StopMatcher matcher(Strings{"c", "abcd"});
    matcher.push("abc");
    CHECK_FALSE(matcher.is_stopped());
    matcher.push("x");
    CHECK(matcher.is_stopped());
    StopMatcher at_end(Strings{"c", "abcd"});
    at_end.push("abc");
    at_end.finish();
    CHECK(at_end.is_stopped());
    StopMatcher without(Strings{"c"});
    without.push("ab");
    without.finish();
    CHECK_FALSE(without.is_stopped());
  }

  TEST_CASE("random texts in random pieces end where the first stop string begins") {
    std::mt19937 rng(11);
    const Strings alphabet = {"a", "b", "가", "각", "😀"};  // 가 and 각 share two of three bytes
    const auto draw = [&](std::size_t num_letters, std::size_t length) {
      std::string text;
      for (std::size_t i = 0; i < length; ++i) text += alphabet[rng() % num_letters];
      return text;
    };
    int num_stopped = 0;
    for (int round = 0; round < 30'000; ++round) {
      const std::size_t num_letters = 1 + rng() % alphabet.size();
      Strings stops(rng() % 4);
      for (std::string& stop : stops) stop = draw(num_letters, 1 + rng() % 5);
      const std::string text = draw(num_letters, rng() % 25);
      CAPTURE(text);
      CAPTURE(join(stops));
      StopMatcher matcher(stops);
      std::string given;
      std::string shown;
      while (given.size() < text.size()) {
        std::size_t end = given.size() + rng() % 9;
        while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
        const std::string piece = text.substr(given.size(), end - given.size());
        given += piece;
        const std::string now = matcher.push(piece);
        CHECK(is_valid_utf8(now));
        shown += now;
        // Text is returned as early as possible: all but a possible beginning of a stop string.
        if (cut(given, stops) == given) {
          CHECK(shown.size() == given.size() - num_held(given, stops));
        }
      }
      shown += matcher.finish();
      CHECK(shown == cut(text, stops));
      CHECK(matcher.is_stopped() == (shown.size() < text.size()));
      num_stopped += matcher.is_stopped() ? 1 : 0;
    }
    CHECK(num_stopped > 10'000);
    CHECK(num_stopped < 25'000);
  }

  TEST_CASE("long stop strings that nearly match cost time by the byte") {
    const std::string stop = std::string(100'000, 'a') + "b";
    StopMatcher matcher(Strings{stop});
    std::size_t num_shown = 0;
    for (int i = 0; i < 30; ++i) num_shown += matcher.push(std::string(10'000, 'a')).size();
    CHECK(num_shown == 200'000);
    CHECK(matcher.push("b") == "");
    CHECK(matcher.is_stopped());
  }

  TEST_CASE("cuts what the tokens of a tokenizer say, also inside a token") {
    const auto tokenizer = open_tokenizer(CAPTION_SOURCE_DIR "/tests/golden/text/modern");
    std::mt19937 rng(12);
    for (int round = 0; round < 500; ++round) {
      std::vector<TokenId> ids(rng() % 30);
      for (TokenId& id : ids) {
        id = static_cast<TokenId>(rng() % static_cast<unsigned>(tokenizer->vocab_size()));
      }
      const std::string text = tokenizer->decode(ids);
      // Takes a stop string from the text, in complete characters.
      std::size_t begin = text.empty() ? 0 : rng() % text.size();
      while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
      std::size_t end = std::min(text.size(), begin + 1 + rng() % 6);
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
      const Strings stops = {text.empty() ? "x" : text.substr(begin, end - begin)};

      IncrementalDecoder decoder(*tokenizer);
      StopMatcher matcher(stops);
      std::string shown;
      for (const TokenId id : ids) shown += matcher.push(decoder.push(id));
      shown += matcher.push(decoder.finish());
      shown += matcher.finish();
      CHECK(shown == cut(text, stops));
    }
  }

  TEST_CASE("an empty stop string and one that is not UTF-8 are refused") {
    CHECK_THROWS_WITH_AS(StopMatcher(Strings{"a", ""}),
                         doctest::Contains("stop string 2 of 2 is empty"), Error);
    CHECK_THROWS_WITH_AS(StopMatcher(Strings{"\xea\xb0"}),
                         doctest::Contains("stop string 1 of 1 is not UTF-8"), Error);
  }
}

}  // namespace
}  // namespace caption::text
