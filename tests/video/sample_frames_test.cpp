#include "video/internal/sample_frames.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "base/error.h"

namespace caption::video {
namespace {

Timeline even_timeline(int num_frames, std::int64_t frame_us) {
  Timeline timeline;
  for (int i = 0; i < num_frames; ++i) timeline.start_us.push_back(i * frame_us);
  timeline.end_us = num_frames * frame_us;
  return timeline;
}

std::vector<std::int64_t> sample(SamplingStrategy strategy, int total, int wanted) {
  return sample_frames({.strategy = strategy, .num_frames = wanted}, even_timeline(total, 40'000));
}

// Hash of all positions for T < 400 and n <= 64:
//   h = 0; for T, n, v in order: h = (h * 31 + v) % 1000000007
std::int64_t hash_of_all(SamplingStrategy strategy) {
  constexpr std::int64_t kPrime = 1'000'000'007;
  std::int64_t hash = 0;
  for (int total = 1; total < 400; ++total) {
    for (int wanted = 1; wanted <= 64; ++wanted) {
      for (const std::int64_t position : sample(strategy, total, wanted)) {
        hash = (hash * 31 + position) % kPrime;
      }
    }
  }
  return hash;
}

TEST_SUITE("video/sample_frames") {
  TEST_CASE("arange and linspace agree with numpy") {
    using Positions = std::vector<std::int64_t>;
    // numpy.arange(0, T, T / n).astype(int)[:n], numpy 2.4.6
    CHECK(sample(SamplingStrategy::kArange, 100, 8) == Positions{0, 12, 25, 37, 50, 62, 75, 87});
    CHECK(sample(SamplingStrategy::kArange, 5, 8) == Positions{0, 0, 1, 1, 2, 3, 3, 4});
    CHECK(sample(SamplingStrategy::kArange, 1, 3) == Positions{0, 0, 0});
    CHECK(hash_of_all(SamplingStrategy::kArange) == 512686020);
    // numpy.linspace(0, T - 1, n).astype(int)
    CHECK(sample(SamplingStrategy::kLinspace, 60, 4) == Positions{0, 19, 39, 59});
    CHECK(sample(SamplingStrategy::kLinspace, 60, 1) == Positions{0});
    CHECK(hash_of_all(SamplingStrategy::kLinspace) == 379293803);
  }

  TEST_CASE("the samplings of InternVL and Qwen3-VL agree with the reference") {
    using Positions = std::vector<std::int64_t>;
    // torch.arange(T / n / 2, T, T / n).int(), torch 2.15
    CHECK(sample(SamplingStrategy::kInternVl, 100, 8) == Positions{6, 18, 31, 43, 56, 68, 81, 93});
    CHECK(sample(SamplingStrategy::kInternVl, 12, 7) == Positions{0, 2, 4, 6, 7, 9, 11});
    CHECK(hash_of_all(SamplingStrategy::kInternVl) == 899563017);
    // numpy.linspace(0, T - 1, n).round(), n = min(max(int(T / fps * 2), 4), num_frames, T)
    CHECK(sample(SamplingStrategy::kQwen3Vl, 100, 8) == Positions{0, 14, 28, 42, 57, 71, 85, 99});
    CHECK(sample(SamplingStrategy::kQwen3Vl, 100, 768) == Positions{0, 14, 28, 42, 57, 71, 85, 99});
    CHECK(sample(SamplingStrategy::kQwen3Vl, 6, 768) == Positions{0, 2, 3, 5});
    CHECK(sample(SamplingStrategy::kQwen3Vl, 2, 768) == Positions{0, 1});
  }

  TEST_CASE("positions ascend and stay inside the video") {
    for (const auto strategy : {SamplingStrategy::kArange, SamplingStrategy::kLinspace,
                                SamplingStrategy::kQwen3Vl, SamplingStrategy::kFps}) {
      for (const int total : {1, 2, 3, 59, 60, 61, 20'001}) {
        for (const int wanted : {1, 2, 7, 30, 64, 4096}) {
          for (const double fps : {1e-9, 0.1, 25.0, 1e12}) {
            const SamplingOptions options{.strategy = strategy, .num_frames = wanted, .fps = fps};
            const auto positions = sample_frames(options, even_timeline(total, 33'333));
            CAPTURE(total);
            CAPTURE(wanted);
            CAPTURE(fps);
            CHECK(!positions.empty());
            CHECK(positions.size() <= static_cast<std::size_t>(wanted));
            CHECK(positions.front() == 0);
            CHECK(positions.back() < total);
            CHECK(std::is_sorted(positions.begin(), positions.end()));
          }
        }
      }
    }
  }

  TEST_CASE("at its own rate a video gives each frame once, even where its clock is coarse") {
    Timeline matroska;  // 30 frames a second in whole milliseconds
    for (int i = 0; i < 300; ++i) matroska.start_us.push_back((i * 100'000 + 1500) / 3000 * 1000);
    matroska.end_us = 10'000'000;
    matroska.tolerance_us = 500;
    const auto positions = sample_frames(
        {.strategy = SamplingStrategy::kFps, .num_frames = 4096, .fps = 30.0}, matroska);
    REQUIRE(positions.size() == 300);
    for (int i = 0; i < 300; ++i) CHECK(positions[static_cast<std::size_t>(i)] == i);
  }

  TEST_CASE("too many ticks become num_frames of them, evenly") {
    const auto positions =
        sample_frames({.strategy = SamplingStrategy::kFps, .num_frames = 4, .fps = 25.0},
                      even_timeline(100, 40'000));
    CHECK(positions == std::vector<std::int64_t>{0, 25, 50, 75});
  }

  TEST_CASE("a frame that stays on screen is sampled again and again") {
    Timeline timeline;
    timeline.start_us = {0, 100'000, 2'500'000};
    timeline.end_us = 3'000'000;
    const auto positions =
        sample_frames({.strategy = SamplingStrategy::kFps, .num_frames = 8, .fps = 2.0}, timeline);
    CHECK(positions == std::vector<std::int64_t>{0, 1, 1, 1, 1, 2});
  }

  TEST_CASE("the three forms are parsed, and nothing else") {
    CHECK(parse_sampling("arange", 8).strategy == SamplingStrategy::kArange);
    CHECK(parse_sampling("linspace", 8).strategy == SamplingStrategy::kLinspace);
    CHECK(parse_sampling("fps=2.5", 8).fps == 2.5);
    CHECK(parse_sampling("fps=2.5", 17).num_frames == 17);
    for (const char* text : {"arange", "linspace", "internvl", "qwen3-vl", "fps=2.5", "fps=2"}) {
      CHECK(sampling_text(parse_sampling(text, 8)) == text);
    }
    CHECK(sampling_text(parse_sampling("fps=2.0", 8)) == "fps=2");
    CHECK(sampling_text(parse_sampling("fps=0.25e1", 8)) == "fps=2.5");
    CHECK(sampling_forms() ==
          std::vector<std::string>{"arange", "linspace", "internvl", "qwen3-vl", "fps=F"});
    for (const char* text : {"", "uniform", "fps", "fps=", "fps=0", "fps=-1", "fps=nan", "fps=inf",
                             "fps=1x", "fps=1,5", "ARANGE"}) {
      CAPTURE(std::string(text));
      CHECK_THROWS_WITH_AS(
          parse_sampling(text, 8),
          (std::string("sampling: \"") + text +
           "\" is not known; arange, linspace, internvl, qwen3-vl or fps=NUMBER (above 0)")
              .c_str(),
          Error);
    }
    CHECK_THROWS_WITH_AS(parse_sampling("arange", 0),
                         "frames: 0 is out of range; 1 to 4096 can be sampled", Error);
    CHECK_THROWS_AS(parse_sampling("arange", 4097), Error);
  }
}

}  // namespace
}  // namespace caption::video
