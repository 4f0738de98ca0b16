#include "drafts/token_archive.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <thread>
#include <vector>

using namespace caption::drafts;

namespace {

using Ids = std::vector<std::int32_t>;
constexpr std::int64_t kEnough = 1 << 20;

std::vector<Guess> guess(const TokenArchive& archive, const Ids& text, std::int64_t most = 8) {
  std::vector<Guess> guesses;
  archive.guess(text, most, guesses);
  return guesses;
}

Ids tokens_of(const std::vector<Guess>& guesses) {
  Ids tokens;
  for (const Guess& guess : guesses) tokens.push_back(guess.token);
  return tokens;
}

struct Place {
  std::size_t length = 0;              // of the context that it has in common
  std::span<const std::int32_t> rest;  // of its text
};

// All places of the texts that have a context in common with `context`, each begun with -1.
std::vector<Place> places_of(const std::vector<Ids>& begun, const Ids& context) {
  std::vector<Place> places;
  for (const Ids& text : begun) {
    for (std::size_t place = 1; place < text.size(); ++place) {
      std::size_t length = 0;
      while (length < std::min({place, context.size(), std::size_t{24}}) &&
             text[place - 1 - length] == context[context.size() - 1 - length]) {
        ++length;
      }
      if (length > 0) places.push_back({length, std::span(text).subspan(place)});
    }
  }
  return places;
}

// The guesses after the longest context that at least `least` places have, by comparing every place
// of every text; -1 stands before a text.
std::vector<Guess> guess_slowly(const std::vector<Ids>& texts, Ids context, std::size_t most,
                                std::size_t least = 1) {
  context.insert(context.begin(), -1);
  std::vector<Ids> begun = texts;
  for (Ids& text : begun) text.insert(text.begin(), -1);
  const std::vector<Place> places = places_of(begun, context);
  const auto num_with = [&](std::size_t length) {
    return static_cast<std::size_t>(std::count_if(
        places.begin(), places.end(), [&](const Place& place) { return place.length >= length; }));
  };
  std::size_t longest = 24;
  while (longest > 0 && num_with(longest) < least) --longest;
  std::vector<std::span<const std::int32_t>> rests;
  for (const Place& place : places) {
    if (longest > 0 && place.length >= longest) rests.push_back(place.rest);
  }
  std::vector<Guess> guesses;
  while (guesses.size() < most) {
    std::map<std::int32_t, std::int32_t> counts;
    for (const auto& rest : rests) {
      if (!rest.empty()) ++counts[rest.front()];
    }
    if (counts.empty()) break;
    const auto best = std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) {
      return a.second < b.second;  // the first, smallest token of equal counts
    });
    guesses.push_back({.token = best->first,
                       .match_length = static_cast<std::int32_t>(longest + guesses.size()),
                       .count = best->second,
                       .total = static_cast<std::int32_t>(rests.size())});
    std::vector<std::span<const std::int32_t>> kept;
    for (const auto& rest : rests) {
      if (!rest.empty() && rest.front() == best->first) kept.push_back(rest.subspan(1));
    }
    rests = kept;
  }
  return guesses;
}

Ids random_text(std::mt19937& rng, std::int32_t vocab, std::size_t most) {
  Ids text(1 + rng() % most);
  for (std::int32_t& id : text)
    id = static_cast<std::int32_t>(rng() % static_cast<unsigned>(vocab));
  return text;
}

void check_equal(const std::vector<Guess>& found, const std::vector<Guess>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].token == expected[i].token);
    CHECK(found[i].match_length == expected[i].match_length);
    CHECK(found[i].count == expected[i].count);
    CHECK(found[i].total == expected[i].total);
  }
}

}  // namespace

TEST_CASE("an archive continues the longest context that it knows") {
  TokenArchive archive(kEnough);
  CHECK(guess(archive, {}).empty());
  CHECK(guess(archive, {1, 2}).empty());
  archive.add(Ids{1, 2, 3, 4});
  archive.add(Ids{9, 2, 3, 5, 6});
  archive.add(Ids{1, 7});
  CHECK(archive.num_tokens() == 11);
  // Texts begin with 1 twice; after that, 2 and 7 are equally frequent.
  CHECK(tokens_of(guess(archive, {})) == Ids{1, 2, 3, 4});
  CHECK(guess(archive, {})[0].count == 2);
  CHECK(guess(archive, {})[0].total == 3);
  CHECK(tokens_of(guess(archive, {8, 9, 2, 3})) == Ids{5, 6});
  CHECK(guess(archive, {8, 9, 2, 3})[0].match_length == 3);
  CHECK(guess(archive, {8, 9, 2, 3})[1].match_length == 4);
  CHECK(tokens_of(guess(archive, {8, 9, 2, 3}, 1)) == Ids{5});
  CHECK(guess(archive, {4}).empty());  // known at the end of a text only
  CHECK(guess(archive, {8}).empty());
}

TEST_CASE("an archive guesses as a comparison with every place does") {
  std::mt19937 rng(5);
  for (int run = 0; run < 30; ++run) {
    const std::int32_t vocab = 2 + static_cast<std::int32_t>(rng() % 5);
    TokenArchive archive(kEnough);
    std::vector<Ids> texts;
    std::size_t num_places = 0;
    // At most 48 places, so that all of them are looked at.
    while (num_places < 40) {
      texts.push_back(random_text(rng, vocab, 8));
      num_places += texts.back().size();
      archive.add(texts.back());
      const Ids context = random_text(rng, vocab + 1, 40);
      const std::size_t most = 1 + rng() % 6;
      if (num_places > 48) break;
      const auto expected = guess_slowly(texts, context, most);
      const auto found = guess(archive, context, static_cast<std::int64_t>(most));
      check_equal(found, expected);
    }
  }
}

TEST_CASE("an archive backs off to a context that many texts have") {
  std::mt19937 rng(7);
  std::int64_t num_backed_off = 0;
  for (int run = 0; run < 60; ++run) {
    const std::int32_t vocab = 2 + static_cast<std::int32_t>(rng() % 5);
    TokenArchive archive(kEnough);
    std::vector<Ids> texts;
    for (int i = 0; i < 12; ++i) {  // at most 48 places are looked at
      texts.push_back(random_text(rng, vocab, 8));
      archive.add(texts.back());
    }
    for (int i = 0; i < 20; ++i) {
      const Ids context = random_text(rng, vocab, 8);
      std::vector<Guess> guesses;
      std::vector<Guess> frequent = {{.token = 1}};
      archive.guess(context, 4, guesses, frequent);
      const std::vector<Guess> longest = guess_slowly(texts, context, 4);
      std::vector<Guess> expected = guess_slowly(texts, context, 4, TokenArchive::kFrequent);
      const auto equal = [](const Guess& a, const Guess& b) {
        return a.token == b.token && a.match_length == b.match_length && a.count == b.count &&
               (a.total == b.total || a.total == 48);
      };
      CHECK(std::equal(guesses.begin(), guesses.end(), longest.begin(), longest.end(), equal));
      // After the same context there is nothing further to say.
      if (!expected.empty() && !longest.empty() &&
          expected[0].match_length == longest[0].match_length) {
        expected.clear();
      }
      num_backed_off += expected.empty() ? 0 : 1;
      if (expected.empty() || expected[0].total <= 48) {
        CHECK(
            std::equal(frequent.begin(), frequent.end(), expected.begin(), expected.end(), equal));
      }
    }
  }
  CHECK(num_backed_off > 100);
}

TEST_CASE("an archive finds the longest context among many texts") {
  std::mt19937 rng(11);
  TokenArchive archive(kEnough);
  std::vector<Ids> texts;
  for (int i = 0; i < 600; ++i) {
    texts.push_back(random_text(rng, 12, 30));
    archive.add(texts.back());
  }
  for (int i = 0; i < 200; ++i) {
    const Ids context = random_text(rng, 12, 30);
    const auto expected = guess_slowly(texts, context, 1);
    const auto found = guess(archive, context, 1);
    REQUIRE(found.size() == expected.size());
    if (found.empty()) continue;
    CHECK(found[0].match_length == expected[0].match_length);
    CHECK(found[0].total == std::min(expected[0].total, 48));
    if (expected[0].total <= 48) CHECK(found[0].token == expected[0].token);
  }
}

TEST_CASE("an archive of many texts guesses as a comparison with every place does") {
  std::mt19937 rng(17);
  TokenArchive archive(kEnough);
  std::vector<Ids> texts;
  for (int i = 0; i < 300; ++i) {
    texts.push_back(random_text(rng, i % 3 == 0 ? 60 : 12, 30));
    archive.add(texts.back());
  }
  const auto check = [](const std::vector<Guess>& found, const std::vector<Guess>& expected) {
    REQUIRE(found.empty() == expected.empty());
    if (found.empty()) return;
    CHECK(found[0].match_length == expected[0].match_length);
    CHECK(found[0].total == std::min(expected[0].total, 48));
    if (expected[0].total > 48) return;  // not all places are looked at
    check_equal(found, expected);
  };
  std::int64_t num_backed_off = 0;
  for (int i = 0; i < 200; ++i) {
    Ids context = texts[rng() % texts.size()];
    context.resize(rng() % (context.size() + 1));
    if (i % 3 > 0 && !context.empty()) {
      context[rng() % context.size()] = static_cast<std::int32_t>(rng() % 61);
    }
    std::vector<Guess> guesses;
    std::vector<Guess> frequent;
    archive.guess(context, 4, guesses, frequent);
    check(guesses, guess_slowly(texts, context, 4));
    std::vector<Guess> expected = guess_slowly(texts, context, 4, TokenArchive::kFrequent);
    if (!guesses.empty() && guesses[0].total >= 16) expected.clear();
    check(frequent, expected);
    num_backed_off += frequent.empty() ? 0 : 1;
  }
  CHECK(num_backed_off > 100);
}

TEST_CASE("an archive forgets the oldest texts, and holds no more bytes than it may") {
  std::mt19937 rng(3);
  constexpr std::int64_t kMost = 4096;
  TokenArchive archive(kMost);
  archive.add(Ids{1000, 1001, 1002});
  CHECK(tokens_of(guess(archive, {1000})) == Ids{1001, 1002});
  for (int i = 0; i < 300; ++i) {
    archive.add(random_text(rng, 50, 20));
    CHECK(archive.size_bytes() <= kMost);
  }
  CHECK(archive.num_tokens() > kMost / 8 / 3);
  CHECK(guess(archive, {1000}).empty());
  const Ids last = {2000, 2001};
  archive.add(last);
  CHECK(tokens_of(guess(archive, {2000})) == Ids{2001});
  archive.add(Ids(kMost, 7));  // more than it may hold
  CHECK(archive.size_bytes() <= kMost);
  CHECK(tokens_of(guess(archive, {2000})) == Ids{2001});
}

TEST_CASE("an archive takes less than 64 bytes per token, of random texts, too") {
  std::mt19937 rng(4);
  // Of the largest vocabulary every context is another one, which is the most that an index has.
  for (const std::int32_t vocab : {20, 300, 1 << 30}) {
    CAPTURE(vocab);
    TokenArchive archive(kEnough);
    for (int i = 0; i < 500; ++i) archive.add(random_text(rng, vocab, 60));
    CHECK(archive.num_tokens() > 14000);
    CHECK(archive.size_bytes() < 64 * archive.num_tokens());
    if (vocab == 20) CHECK(archive.size_bytes() <= 16 * archive.num_tokens());
  }
}

TEST_CASE("threads add and guess at the same time") {
  TokenArchive archive(1 << 14);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&archive, t] {
      std::mt19937 rng(t);
      for (int i = 0; i < 200; ++i) {
        archive.add(random_text(rng, 20, 20));
        for (const Guess& guess : guess(archive, random_text(rng, 20, 20))) {
          CHECK(guess.token >= 0);
          CHECK(guess.count <= guess.total);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("what threads add at the same time is all held after one more text") {
  TokenArchive archive(kEnough);
  constexpr int kThreads = 4;
  constexpr int kTexts = 300;
  std::vector<std::thread> threads;
  for (std::int32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&archive, t] {
      for (std::int32_t i = 0; i < kTexts; ++i) archive.add(Ids{t, 100 + i, 1000 + i});
    });
  }
  for (std::thread& thread : threads) thread.join();
  archive.add(Ids{7, 8, 9});
  CHECK(archive.num_tokens() == 3 * (kThreads * kTexts + 1));
  for (std::int32_t t = 0; t < kThreads; ++t) {
    for (std::int32_t i = 0; i < kTexts; ++i) {
      CHECK(tokens_of(guess(archive, {t, 100 + i})) == Ids{1000 + i});
    }
  }
}
