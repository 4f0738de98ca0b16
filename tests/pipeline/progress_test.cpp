// What a run says about itself.
#include "pipeline/progress.h"

#include <doctest/doctest.h>

namespace caption::pipeline {
namespace {

TEST_SUITE("pipeline/progress") {
  TEST_CASE("rates are per second of the run") {
    const Progress progress{.clips_total = 10,
                            .clips_done = 4,
                            .clips_failed = 1,
                            .files_skipped = 0,
                            .output_tokens = 100,
                            .elapsed_us = 2'000'000};
    CHECK(describe_progress(progress) ==
          "4/10 clips, 1 failed, about 3 s left, 1.5 clips/s, 50 tokens/s");
    CHECK(describe_progress({}) == "0/0 clips");
    Progress several = progress;
    several.num_prompts = 2;
    CHECK(describe_progress(several) ==
          "4/10 captions, 1 failed, about 3 s left, 1.5 captions/s, 50 tokens/s");
    Outcome outcome;
    outcome.progress = several;
    CHECK(describe_speed(outcome) ==
          "3 captions written, 1 failed in 2 s: 1.5 captions/s, 50 output tokens/s, 0 sequences "
          "per step");
  }

  TEST_CASE("nothing captioned has no speed") {
    Outcome outcome;
    outcome.progress.elapsed_us = 500;
    CHECK(describe_speed(outcome) == "nothing to caption");
    outcome.progress.files_skipped = 1;
    CHECK(describe_speed(outcome) == "nothing to caption, 1 file in folders is no video");
    outcome.progress = {
        .clips_total = 2, .clips_done = 2, .clips_failed = 2, .elapsed_us = 1'000'000};
    CHECK(describe_speed(outcome) == "0 clips captioned, 2 failed in 1 s");
    CHECK(describe_progress(outcome.progress) == "2/2 clips, 2 failed");
  }

  TEST_CASE("one is one") {
    Outcome outcome;
    outcome.progress = {.clips_total = 1,
                        .clips_done = 1,
                        .files_skipped = 1,
                        .output_tokens = 30,
                        .elapsed_us = 1'000'000};
    outcome.engine.mean_batch = 1.04;
    CHECK(describe_speed(outcome) ==
          "1 clip captioned, 1 file in folders is no video in 1 s: 1 clip/s, 30 output tokens/s, "
          "1 sequence per step");
    outcome.engine.mean_batch = 1.1;
    CHECK(describe_speed(outcome).ends_with("1.1 sequences per step"));
  }

  TEST_CASE("the time that is left is told once it can be") {
    struct Case {
      std::int64_t elapsed_s;
      std::int64_t done;
      const char* left;
    };
    constexpr Case kCases[] = {{1, 1, ""},
                               {10, 0, ""},
                               {10, 1000, ""},
                               {10, 999, "about 1 s left"},
                               {10, 500, "about 10 s left"},
                               {10, 50, "about 3 min left"},
                               {10, 1, "about 2 h 47 min left"},
                               {44, 10, "about 1 h 13 min left"},
                               {38, 10, "about 1 h 03 min left"}};
    for (const Case& c : kCases) {
      CAPTURE(c.elapsed_s);
      CAPTURE(c.done);
      const std::string line = describe_progress(
          {.clips_total = 1000, .clips_done = c.done, .elapsed_us = c.elapsed_s * 1'000'000});
      const bool tells = line.find(" left") != std::string::npos;
      CHECK(tells == (*c.left != '\0'));
      CHECK(line.find(c.left) != std::string::npos);
    }
  }

  TEST_CASE("the live line is cut to the terminal, between its parts") {
    const std::string line = "12/100 clips, 1 failed, about 2 min left, 0.81 clips/s";
    CHECK(fit_to_width(line, 200) == line);
    CHECK(fit_to_width(line, line.size()) == line);
    CHECK(fit_to_width(line, line.size() - 1) == "12/100 clips, 1 failed, about 2 min left");
    CHECK(fit_to_width(line, 22) == "12/100 clips, 1 failed");
    CHECK(fit_to_width(line, 21) == "12/100 clips");
    CHECK(fit_to_width(line, 5) == "12/10");
    CHECK(fit_to_width(line, 0).empty());
  }

  TEST_CASE("a terminal that cannot redraw a line gets sparse lines") {
    CHECK(choose_progress_style(true, "xterm-256color") == ProgressStyle::kLive);
    CHECK(choose_progress_style(true, "dumb") == ProgressStyle::kSparse);
    CHECK(choose_progress_style(true, "") == ProgressStyle::kSparse);
    CHECK(choose_progress_style(true, nullptr) == ProgressStyle::kSparse);
    CHECK(choose_progress_style(false, "xterm") == ProgressStyle::kSparse);
  }

  TEST_CASE("the busiest stage is the one that limits") {
    Outcome outcome;
    outcome.progress = {.clips_total = 1,
                        .clips_done = 1,
                        .clips_failed = 0,
                        .files_skipped = 3,
                        .output_tokens = 30,
                        .elapsed_us = 1'000'000};
    outcome.busy = {.decode_us = 1'000'000, .vision_us = 600'000, .engine_us = 550'000};
    CHECK(describe_busy(outcome, {.decode = 2, .vision = 1, .engine = 1}) ==
          "busy: hashing 0 % decode 50 % vision 60 % engine 55 %; vision limits");
    StageTimes& busy = outcome.busy;
    busy = {.decode_us = 0, .cache_us = 1'800'000, .vision_us = 0, .engine_us = 550'000};
    CHECK(describe_busy(outcome, {.decode = 2, .vision = 1, .engine = 1}) ==
          "busy: hashing 0 % decode 0 % vision 0 % engine 55 % cache look-up 90 %; cache look-up "
          "limits");
    CHECK(describe_speed(outcome) ==
          "1 clip captioned, 3 files in folders are no videos in 1 s: 1 clip/s, 30 output "
          "tokens/s, 0 sequences per step");
  }

  TEST_CASE("the caches say what they gave, if they were asked") {
    Outcome outcome;
    CHECK(describe_caches(outcome).empty());
    outcome.engine.prefix_lookup_tokens = 200;
    CHECK(describe_caches(outcome) == "prefix cache: 0 % of prompt tokens hit");
    outcome.engine.prefix_hit_tokens = 130;
    outcome.engine.disk_hit_tokens = 48;
    outcome.clips_seen_before = 2;
    CHECK(describe_caches(outcome) ==
          "prefix cache: 65 % of prompt tokens hit, 48 tokens from disk; 2 clips seen before, "
          "neither decoded nor encoded");
  }
}

}  // namespace
}  // namespace caption::pipeline
