// The text of the nearest thing, copied after a prompt.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "drafts/drafter.h"

using namespace caption::drafts;

namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kPromptTokens = 100;
constexpr auto kCopied = static_cast<std::size_t>(GuessSource::kCopy);

Ids numbered(std::int32_t first, std::size_t size) {
  Ids ids(size);
  for (std::size_t i = 0; i < size; ++i) ids[i] = first + static_cast<std::int32_t>(i);
  return ids;
}

Sketch look(float x) { return sketch_of(std::vector<float>{1, x, 0}); }

// A drafter without an archive; what it guesses after prompts is of the nearest texts.
class Copying {
 public:
  explicit Copying(const DrafterOptions& options)
      : drafter_(options, nullptr, std::make_shared<NearestTexts>(1 << 20)) {}

  void know(float x, const Ids& text) {
    drafter_.begin(++last_, 1, look(x));
    drafter_.end(last_, text);
  }
  // Steps of n tokens take a + b * n us.
  void measure(double a, double b) {
    for (const std::int64_t n : {1, 4, 16, 64, 128, 256, 512}) {
      for (int i = 0; i < 20; ++i) {
        const double us = a + b * static_cast<double>(n);
        drafter_.observe_step({.num_tokens = n, .us = static_cast<std::int64_t>(us)});
      }
    }
  }
  // The drafts of a new sequence after its prompt.
  Ids begin(float x, const Ids& output = {}, std::int64_t most = 120) {
    drafter_.begin(++last_, 1, look(x));
    Ids tokens = numbered(500, kPromptTokens);
    tokens.insert(tokens.end(), output.begin(), output.end());
    Ids drafts;
    const DraftQuery query{.sequence = last_,
                           .tokens = tokens,
                           .num_prompt = kPromptTokens,
                           .most = most,
                           .drafts = &drafts};
    drafter_.propose_after_prompts({&query, 1}, 0, kPromptTokens);
    return drafts;
  }
  // The first num_right of the drafts were right.
  void end(const Ids& drafts, std::size_t num_right) {
    const auto computed = static_cast<std::int64_t>(drafts.size());
    if (computed > 0) {
      drafter_.observe(last_, computed, static_cast<std::int64_t>(num_right),
                       num_right < drafts.size());
    }
    drafter_.end(last_, {});
  }
  Drafter& drafter() { return drafter_; }

 private:
  Drafter drafter_;
  std::int64_t last_ = 0;
};

}  // namespace

TEST_SUITE("drafts/copy") {
  TEST_CASE("the nearest text is copied whole, or as far as is asked for, if it goes on so") {
    Copying copying({.method = Method::kArchive, .is_adaptive = false});
    CHECK(copying.begin(0).empty());
    const Ids text = numbered(10, 40);
    copying.know(0, text);
    copying.know(5, numbered(200, 40));
    CHECK(copying.begin(0.001F) == text);
    CHECK(copying.begin(0.001F, {}, 7) == numbered(10, 7));
    // A preempted sequence computes its output again.
    CHECK(copying.begin(0.001F, {10, 11, 12}) == numbered(13, 37));
    CHECK(copying.begin(0.001F, {10, 99}).empty());
    CHECK(copying.begin(0.001F, text).empty());
  }

  TEST_CASE("a method without texts of others copies nothing") {
    Copying copying({.method = Method::kNgram, .is_adaptive = false});
    copying.know(0, numbered(10, 40));
    CHECK(copying.begin(0).empty());
    CHECK(most_copied_tokens(Method::kNgram, 128, 1000) == 0);
    CHECK(most_copied_tokens(Method::kArchive, 128, 1000) == 127);
    CHECK(most_copied_tokens(Method::kArchive, 1, 1000) == 0);
    CHECK(most_copied_tokens(Method::kArchive, 4096, 151'936) == 110);  // 64 MiB of logits
  }

  TEST_CASE("a copy is counted, and gives the output in one step") {
    Copying copying({.method = Method::kArchive, .is_adaptive = false});
    const Ids text = numbered(10, 40);
    copying.know(0, text);
    copying.measure(1000, 1);
    const Ids drafts = copying.begin(0);
    copying.drafter().observe(2, 40, 40, false);
    copying.drafter().observe_step({.num_tokens = kPromptTokens + 40, .us = 1140});
    const DraftCounts counts = copying.drafter().counts();
    CHECK(counts.computed[kCopied] == 40);
    CHECK(counts.accepted[kCopied] == 40);
    CHECK(counts.further_tokens == 39);
    CHECK(copying.drafter().steps().with_drafts == 1);
    // 39 further tokens of a millisecond each, for at most 40 us.
    CHECK(copying.drafter().steps().saved_us > 30'000);
  }

  TEST_CASE("as much is copied as saves more time than it costs") {
    Copying unmeasured({.method = Method::kArchive});
    unmeasured.know(0, numbered(10, 40));
    CHECK(unmeasured.begin(0).empty());
    struct Case {
      double us_per_step;
      double us_per_token;
      float x;
      std::size_t least;
      std::size_t most;
    };
    const Case cases[] = {
        {1000, 1, 0.001F, 40, 40},    // bound by memory, alike
        {1000, 100, 0.001F, 30, 40},  // a token costs a tenth of a step
        {10, 1000, 0.001F, 0, 0},     // bound by arithmetic: a token costs a step
        {1000, 300, 3, 0, 12},        // not alike
    };
    for (const Case& c : cases) {
      CAPTURE(c.us_per_step);
      CAPTURE(c.us_per_token);
      CAPTURE(c.x);
      Copying copying({.method = Method::kArchive});
      copying.know(0, numbered(10, 40));
      copying.measure(c.us_per_step, c.us_per_token);
      const std::size_t size = copying.begin(c.x).size();
      CHECK(size >= c.least);
      CHECK(size <= c.most);
    }
  }

  TEST_CASE("how alike things must look is learned from what was right") {
    Copying copying({.method = Method::kArchive});
    copying.know(0, numbered(10, 40));
    copying.measure(1000, 50);
    // Things that look alike and have other texts: soon their drafts are few.
    Ids drafts;
    for (int i = 0; i < 60; ++i) {
      drafts = copying.begin(0.001F);
      copying.end(drafts, 0);
    }
    CHECK(drafts.size() <= 2);
    // Those that look less alike are right: they are copied further and further.
    for (int i = 0; i < 60; ++i) {
      drafts = copying.begin(0.6F);
      copying.end(drafts, drafts.size());
    }
    CHECK(drafts.size() >= 30);
  }
}
