#include "drafts/token_archive.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "drafts/internal/run_array.h"

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

using Texts = std::vector<Ids>;

// The texts in the runs of an archive to which they were added one after another: a run at least
// 1/8 as long as the one before it is merged with that.
std::vector<Texts> runs_of(const Texts& texts) {
  std::vector<Texts> runs;
  const auto length = [](const Texts& run) {
    std::size_t sum = 0;
    for (const Ids& text : run) sum += text.size() + 1;
    return sum;
  };
  for (const Ids& text : texts) {
    runs.push_back({text});
    while (runs.size() > 1 && length(runs.back()) * 8 >= length(runs[runs.size() - 2])) {
      Texts& older = runs[runs.size() - 2];
      older.insert(older.end(), runs.back().begin(), runs.back().end());
      runs.pop_back();
    }
  }
  return runs;
}

struct Place {
  std::size_t length = 0;  // tokens in common with the context
  Ids backwards;           // the tokens before it, to the -1 before the text, but at most 24
  Ids rest;                // the tokens from it to the text's end
};

// All places of the texts that have a context in common with `context`, which begins with -1, in
// the order of what is before them.
std::vector<Place> places_of(const Texts& texts, const Ids& context) {
  std::vector<Place> places;
  for (Ids text : texts) {
    text.insert(text.begin(), -1);
    for (std::size_t place = 1; place < text.size(); ++place) {
      Place found;
      for (std::size_t i = 0; i < std::min<std::size_t>(place, 24); ++i) {
        found.backwards.push_back(text[place - 1 - i]);
      }
      const std::size_t most = std::min(found.backwards.size(), context.size());
      while (found.length < most &&
             found.backwards[found.length] == context[context.size() - 1 - found.length]) {
        ++found.length;
      }
      found.rest.assign(text.begin() + static_cast<std::ptrdiff_t>(place), text.end());
      if (found.length > 0) places.push_back(found);
    }
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.backwards < b.backwards; });
  return places;
}

// The most frequent tokens of texts that go on with `rests`.
std::vector<Guess> continue_slowly(Texts rests, std::size_t length, std::size_t most) {
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
                       .match_length = static_cast<std::int32_t>(length + guesses.size()),
                       .count = best->second,
                       .total = static_cast<std::int32_t>(rests.size())});
    Texts kept;
    for (const auto& rest : rests) {
      if (!rest.empty() && rest.front() == best->first)
        kept.emplace_back(rest.begin() + 1, rest.end());
    }
    rests = kept;
  }
  return guesses;
}

// The guesses after the longest context that at least `least` places have, by comparing every place
// of every text.
std::vector<Guess> guess_slowly(const Texts& texts, Ids context, std::size_t most,
                                std::size_t least = 1) {
  context.insert(context.begin(), -1);
  std::vector<std::vector<Place>> runs;
  for (const Texts& run : runs_of(texts)) runs.push_back(places_of(run, context));
  const auto num_with = [&](std::size_t length) {
    std::size_t count = 0;
    for (const std::vector<Place>& run : runs) {
      for (const Place& place : run) count += place.length >= length ? 1U : 0U;
    }
    return count;
  };
  std::size_t longest = 24;
  while (longest > 0 && num_with(longest) < least) --longest;
  if (longest == 0) return {};
  Texts all;
  Texts most_of_a_run;
  for (const std::vector<Place>& run : runs) {
    Texts rests;
    for (const Place& place : run) {
      if (place.length >= longest) rests.push_back(place.rest);
    }
    all.insert(all.end(), rests.begin(), rests.end());
    if (rests.size() > most_of_a_run.size()) most_of_a_run = rests;
  }
  if (all.size() < TokenArchive::kFrequent) return continue_slowly(all, longest, most);
  const std::size_t num_looked_at = std::min<std::size_t>(most_of_a_run.size(), 48);
  Texts looked_at;
  for (std::size_t i = 0; i < num_looked_at; ++i) {
    looked_at.push_back(most_of_a_run[i * most_of_a_run.size() / num_looked_at]);
  }
  return continue_slowly(looked_at, longest, most);
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

// Compares both kinds of guesses after the context; returns whether there were frequent ones.
bool check_guesses(const TokenArchive& archive, const Texts& texts, const Ids& context,
                   std::size_t most) {
  std::vector<Guess> guesses;
  std::vector<Guess> frequent = {{.token = 1}};
  archive.guess(context, static_cast<std::int64_t>(most), guesses, frequent);
  check_equal(guesses, guess_slowly(texts, context, most));
  check_equal(guess(archive, context, static_cast<std::int64_t>(most)), guesses);
  std::vector<Guess> expected = guess_slowly(texts, context, most, TokenArchive::kFrequent);
  // After the same context there is nothing further to say.
  if (!expected.empty() && expected[0].match_length == guesses[0].match_length) expected.clear();
  check_equal(frequent, expected);
  return !frequent.empty();
}

TEST_CASE("an archive guesses as a comparison with every place does") {
  std::mt19937 rng(5);
  for (int run = 0; run < 60; ++run) {
    const std::int32_t vocab = 2 + static_cast<std::int32_t>(rng() % 5);
    TokenArchive archive(kEnough);
    Texts texts;
    for (int i = 0; i < 20; ++i) {
      texts.push_back(random_text(rng, vocab, 8));
      archive.add(texts.back());
      check_guesses(archive, texts, random_text(rng, vocab + 1, 40), 1 + rng() % 12);
    }
  }
}

TEST_CASE("an archive of many texts guesses as a comparison with every place does") {
  std::mt19937 rng(17);
  struct Case {
    const char* name;
    std::int32_t vocab;
    std::size_t num_copies;  // copies of each text
  };
  // Many copies of long texts give contexts of every length many places.
  for (const Case& c :
       {Case{"few tokens", 3, 1}, Case{"some tokens", 12, 1}, Case{"many tokens", 60, 1},
        Case{"copies", 60, 9}, Case{"one token", 1, 1}, Case{"copies of few tokens", 2, 40}}) {
    CAPTURE(c.name);
    TokenArchive archive(kEnough);
    Texts texts;
    // As many tokens as an archive merges at once, with what stands before each text.
    for (std::size_t num_tokens = 0; num_tokens < 4096;) {
      const Ids text = random_text(rng, c.vocab, 40);
      num_tokens += (text.size() + 1) * c.num_copies;
      for (std::size_t i = 0; i < c.num_copies && num_tokens <= 4096; ++i) {
        texts.push_back(text);
        archive.add(text);
      }
    }
    std::int64_t num_backed_off = 0;
    for (int i = 0; i < 60; ++i) {
      Ids context = i % 2 == 0 ? texts[rng() % texts.size()] : random_text(rng, c.vocab, 40);
      context.resize(rng() % (context.size() + 1));
      if (i % 3 > 0 && !context.empty()) {
        context[rng() % context.size()] =
            static_cast<std::int32_t>(rng() % static_cast<unsigned>(c.vocab + 1));
      }
      num_backed_off += check_guesses(archive, texts, context, i % 5 == 0 ? 12 : 4) ? 1 : 0;
    }
    if (c.vocab == 12) CHECK(num_backed_off > 20);
  }
}

TEST_CASE("an archive has every text while it merges others in pieces") {
  std::mt19937 rng(23);
  TokenArchive archive(64 * kEnough);
  TokenArchive same(64 * kEnough);
  std::int64_t num_tokens = 0;
  constexpr std::int32_t kFirstId = 1000;
  for (std::int32_t i = 0; num_tokens < 60000; ++i) {
    // The first token is only this text's.
    Ids text = random_text(rng, 300, 60);
    text.insert(text.begin(), kFirstId + i);
    num_tokens += std::ssize(text);
    archive.add(text);
    same.add(text);
    REQUIRE(archive.num_tokens() == num_tokens);
    const auto other = static_cast<std::int32_t>(rng() % static_cast<unsigned>(i + 1));
    for (const std::int32_t first : {kFirstId + i, kFirstId + other}) {
      const std::vector<Guess> guesses = guess(archive, {first});
      REQUIRE(!guesses.empty());
      CHECK(guesses[0].total == 1);
    }
    const Ids context = random_text(rng, 300, 2);
    check_equal(guess(archive, context), guess(same, context));
  }
}

TEST_CASE("merges end without further texts, and guesses are what they were") {
  std::mt19937 rng(41);
  TokenArchive archive(64 * kEnough);
  std::vector<Ids> texts;
  // The arrays of the merged runs are large enough to be freed one by one.
  while (archive.num_tokens() < 90000) {
    texts.push_back(random_text(rng, 300, 60));
    archive.add(texts.back());
  }
  const std::int64_t num_tokens = archive.num_tokens();
  int num_calls = 0;
  while (archive.merge_on() && num_calls < 10000) ++num_calls;
  CHECK(num_calls < 10000);
  CHECK_FALSE(archive.merge_on());
  CHECK(archive.num_tokens() == num_tokens);
  for (std::size_t i = 0; i < texts.size(); i += texts.size() / 20) {
    if (texts[i].size() < 4) continue;
    CHECK(guess(archive, {texts[i].begin(), texts[i].begin() + 3}).at(0).match_length >= 3);
  }
}

TEST_CASE("a cleared array gives its memory back") {
  RunArray<std::int32_t> small(100);
  CHECK_FALSE(clear(small));
  CHECK(small.capacity() == 0);
  RunArray<std::int32_t> large(kHugePageBytes);
  CHECK(clear(large));
  CHECK(large.capacity() == 0);
  CHECK_FALSE(clear(large));
}

TEST_CASE("a large archive forgets the oldest texts in pieces, and holds no more than it may") {
  std::mt19937 rng(29);
  constexpr std::int64_t kMost = 1 << 20;
  TokenArchive archive(kMost);
  for (std::int32_t i = 0; i < 4000; ++i) {
    Ids text = random_text(rng, 300, 60);
    text.insert(text.begin(), 1000 + i);
    archive.add(text);
    REQUIRE(archive.size_bytes() <= kMost);
    REQUIRE(guess(archive, {1000 + i}).size() == std::min<std::size_t>(8, text.size() - 1));
  }
  CHECK(archive.num_tokens() > kMost / 64 / 2);
  CHECK(guess(archive, {1000}).empty());
}

TEST_CASE("an archive forgets the oldest texts, and holds no more bytes than it may") {
  std::mt19937 rng(3);
  constexpr std::int64_t kMost = 1 << 14;
  TokenArchive archive(kMost);
  archive.add(Ids{1000, 1001, 1002});
  CHECK(tokens_of(guess(archive, {1000})) == Ids{1001, 1002});
  for (int i = 0; i < 300; ++i) {
    archive.add(random_text(rng, 50, 20));
    CHECK(archive.size_bytes() <= kMost);
  }
  CHECK(archive.num_tokens() > kMost / 64 / 2);  // half is forgotten at a time
  CHECK(guess(archive, {1000}).empty());
  const Ids last = {2000, 2001};
  archive.add(last);
  CHECK(tokens_of(guess(archive, {2000})) == Ids{2001});
  archive.add(Ids(kMost, 7));  // more than it may hold
  CHECK(archive.size_bytes() <= kMost);
  CHECK(tokens_of(guess(archive, {2000})) == Ids{2001});
}

TEST_CASE("an archive takes less than 64 bytes per token, whatever the texts") {
  std::mt19937 rng(4);
  // In texts of the largest vocabulary every context is another one. Copies give contexts of every
  // length as many positions as there are copies.
  struct Case {
    std::int32_t vocab;
    int num_copies;
  };
  for (const Case& c : {Case{1, 1}, Case{2, 1}, Case{20, 1}, Case{300, 1}, Case{1 << 30, 1},
                        Case{1 << 30, 8}, Case{1 << 30, 9}, Case{1 << 30, 16}, Case{300, 64}}) {
    CAPTURE(c.vocab);
    CAPTURE(c.num_copies);
    TokenArchive archive(kEnough);
    while (archive.num_tokens() < 14000) {
      const Ids text = random_text(rng, c.vocab, 60);
      for (int i = 0; i < c.num_copies; ++i) archive.add(text);
    }
    CHECK(archive.size_bytes() < 64 * archive.num_tokens());
    if (c.vocab == 20) CHECK(archive.size_bytes() < 40 * archive.num_tokens());
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
