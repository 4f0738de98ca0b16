// Detects a cycle that fills 64 tokens and four periods at the first token that completes it, and
// detects nothing in text.
#include "sampling/loop_detector.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace caption::sampling {
namespace {

// Number of tokens after which the detector reports a loop; 0: never.
std::int64_t fires_after(const std::vector<std::int32_t>& tokens) {
  LoopDetector detector;
  for (std::size_t n = 1; n <= tokens.size(); ++n) {
    detector.observe(std::span(tokens).first(n));
    if (detector.period() != 0) return static_cast<std::int64_t>(n);
  }
  return 0;
}

std::vector<std::int32_t> cycle(std::int64_t period, std::int64_t num_tokens) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < num_tokens; ++i) {
    tokens.push_back(static_cast<std::int32_t>(i % period));
  }
  return tokens;
}

TEST_SUITE("sampling/loop_detector") {
  TEST_CASE("fires when a cycle fills 64 tokens and four rounds") {
    struct Case {
      std::int64_t period, after;
    };
    constexpr Case kCases[] = {{1, 64},   {2, 64},   {7, 64}, {16, 64}, {17, 68},
                               {31, 124}, {32, 128}, {33, 0}, {64, 0}};
    for (const Case& c : kCases) {
      CAPTURE(c.period);
      CHECK(fires_after(cycle(c.period, 400)) == c.after);
    }
  }

  TEST_CASE("what came before the cycle does not matter, and names the shortest period") {
    std::vector<std::int32_t> tokens = {90, 91, 92, 0, 1, 1, 93, 94};
    for (const std::int32_t token : cycle(5, 64)) tokens.push_back(token);
    CHECK(fires_after(tokens) == 72);
    LoopDetector detector;
    for (std::size_t n = 1; n <= tokens.size(); ++n) detector.observe(std::span(tokens).first(n));
    CHECK(detector.period() == 5);
  }

  TEST_CASE("one different token breaks the cycle") {
    std::vector<std::int32_t> tokens = cycle(4, 126);
    tokens[63] = 99;
    CHECK(fires_after(tokens) == 0);
    tokens = cycle(4, 128);
    tokens[63] = 99;
    CHECK(fires_after(tokens) == 128);
  }

  TEST_CASE("random text and a caption with a refrain are no loops") {
    std::mt19937 rng(11);
    for (int text = 0; text < 200; ++text) {
      CAPTURE(text);
      // Random text of only four ids is far more repetitive than language.
      std::vector<std::int32_t> tokens;
      for (int i = 0; i < 1000; ++i) tokens.push_back(static_cast<std::int32_t>(rng() % 4));
      CHECK(fires_after(tokens) == 0);
    }
    std::vector<std::int32_t> refrain;
    for (std::int32_t verse = 0; verse < 20; ++verse) {
      for (std::int32_t i = 0; i < 12; ++i) refrain.push_back(i);  // "the man walks to the ..."
      refrain.push_back(100 + verse);                              // "door", "window", ...
    }
    CHECK(fires_after(refrain) == 0);
  }
}

}  // namespace
}  // namespace caption::sampling
