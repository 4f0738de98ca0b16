// How long a guess from an archive takes, and what the archive holds:
//   caption_archive_bench [TOKENS [SECONDS]]
// Look-ups begin so many seconds after the last text, by which the system may have made huge pages
// of the archive's. Texts are added in processor time.
// Two kinds of texts of some 40 tokens: one of words, each of which is one of eight that the last
// two tokens determine, the first being the likeliest; and one of phrases, one of a few at each
// place, so that texts have long parts in common, as captions of one style do.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "drafts/token_archive.h"

namespace {

using Ids = std::vector<std::int32_t>;
using Guesses = std::vector<caption::drafts::Guess>;
using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

double processor_us() { return static_cast<double>(std::clock()) * (1e6 / CLOCKS_PER_SEC); }

Ids make_words(std::mt19937& rng) {
  constexpr std::size_t kLength = 40;
  constexpr std::uint32_t kVocab = 4000;
  Ids text = {static_cast<std::int32_t>(rng() % 50)};
  std::uint32_t before = 0;
  while (text.size() < kLength) {
    std::uint32_t choice = 0;
    while (choice < 7 && rng() % 4 == 0) ++choice;
    const auto last = static_cast<std::uint32_t>(text.back());
    const std::uint32_t next = (last * 2654435761U + before % 8 * 40503U + choice * 97U) % kVocab;
    before = last;
    text.push_back(static_cast<std::int32_t>(next));
  }
  return text;
}

Ids make_phrases(std::mt19937& rng) {
  constexpr std::uint32_t kVocab = 1000;
  constexpr std::uint32_t kNumPhrases[] = {6, 4, 30, 2, 12, 40, 8, 40, 6, 3};
  Ids text;
  for (std::uint32_t place = 0; place < std::size(kNumPhrases); ++place) {
    const std::uint32_t phrase = place << 8 | rng() % kNumPhrases[place];
    const std::uint32_t length = 2 + (phrase * 2654435761U >> 16) % 5;
    for (std::uint32_t i = 0; i < length; ++i) {
      text.push_back(static_cast<std::int32_t>((phrase * 40503U + i * 977U) % kVocab));
    }
  }
  return text;
}

// Memory that takes the place of an archive in the caches of a core, as the weights of a step do.
class OtherMemory {
 public:
  void read() {
    for (std::size_t i = 0; i < bytes_.size(); i += 64) sum_ += bytes_[i];
  }
  std::uint64_t sum() const { return sum_; }

 private:
  std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(6 << 20, 1);
  std::uint64_t sum_ = 0;
};

// Prints how long look_up(tokens), which replaces `guesses`, takes after each beginning of `texts`,
// as in the steps of a sequence; before() is called before each.
template <class Before, class LookUp>
void time_look_ups(const char* what, std::span<const Ids> texts, const Guesses& guesses,
                   const Before& before, const LookUp& look_up) {
  std::vector<double> times_us;
  std::int64_t num_guesses = 0;
  std::int64_t num_right = 0;
  for (const Ids& text : texts) {
    for (std::size_t length = 0; length < text.size(); ++length) {
      before();
      const Clock::time_point begin = Clock::now();
      look_up(std::span(text).first(length));
      times_us.push_back(us_since(begin));
      num_guesses += guesses.empty() ? 0 : 1;
      num_right += !guesses.empty() && guesses.front().token == text[length] ? 1 : 0;
    }
  }
  std::sort(times_us.begin(), times_us.end());
  std::printf("%-42s %.2f us (median), %.2f us (95 %%); the first is right in %.0f %%\n", what,
              times_us[times_us.size() / 2], times_us[times_us.size() * 95 / 100],
              100.0 * static_cast<double>(num_right) /
                  static_cast<double>(std::max<std::int64_t>(1, num_guesses)));
}

// Returns a sum of what was read.
std::uint64_t measure(const char* what, Ids (*make_text)(std::mt19937&), std::int64_t num_tokens,
                      int seconds) {
  std::mt19937 rng(1);
  caption::drafts::TokenArchive archive(std::int64_t{1} << 32);
  double longest_add_us = 0;
  double us = 0;
  while (archive.num_tokens() < num_tokens) {
    const Ids text = make_text(rng);
    const double begin = processor_us();
    archive.add(text);
    const double add_us = processor_us() - begin;
    us += add_us;
    longest_add_us = std::max(longest_add_us, add_us);
  }
  std::this_thread::sleep_for(std::chrono::seconds(seconds));

  std::printf(
      "%lld tokens of %s, %.1f bytes each; added in %.2f us each, the slowest text in %.0f us\n",
      static_cast<long long>(archive.num_tokens()), what,
      static_cast<double>(archive.size_bytes()) / static_cast<double>(archive.num_tokens()),
      us / static_cast<double>(archive.num_tokens()), longest_add_us);

  std::vector<Ids> texts(500);
  for (Ids& text : texts) text = make_text(rng);
  Guesses guesses;
  Guesses frequent;
  const auto longest = [&](std::span<const std::int32_t> tokens) {
    archive.guess(tokens, 8, guesses);
  };
  const auto both = [&](std::span<const std::int32_t> tokens) {
    archive.guess(tokens, 8, guesses, frequent);
  };
  const auto nothing = [] {};
  OtherMemory memory;
  const auto read = [&memory] { memory.read(); };
  time_look_ups("8 guesses", texts, guesses, nothing, longest);
  time_look_ups("8 guesses and 8 frequent ones", texts, guesses, nothing, both);
  time_look_ups("8 guesses after 6 MiB of other memory", texts, guesses, read, longest);
  time_look_ups("8 guesses and 8 frequent ones after 6 MiB", texts, guesses, read, both);
  return memory.sum();
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t num_tokens = argc > 1 ? std::atoll(argv[1]) : 1'000'000;
  const int seconds = argc > 2 ? std::atoi(argv[2]) : 0;
  std::uint64_t sum = measure("words", make_words, num_tokens, seconds);
  sum += measure("phrases", make_phrases, num_tokens, seconds);
  return sum > 0 ? 0 : 1;
}
