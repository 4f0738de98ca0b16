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
    CHECK(describe_progress(progress) == "4/10 clips, 1 failed, 2 clips/s, 50 tokens/s");
    CHECK(describe_progress({}) == "0/0 clips, 0 clips/s, 0 tokens/s");
    Progress several = progress;
    several.num_prompts = 2;
    CHECK(describe_progress(several) == "4/10 captions, 1 failed, 2 captions/s, 50 tokens/s");
    Outcome outcome;
    outcome.progress = several;
    CHECK(describe_speed(outcome).starts_with("3 captions written, 1 failed in 2 s: 2 captions/s"));
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
          "busy: decode 50 % vision 60 % engine 55 %; vision limits");
    StageTimes& busy = outcome.busy;
    busy = {.decode_us = 0, .cache_us = 1'800'000, .vision_us = 0, .engine_us = 550'000};
    CHECK(describe_busy(outcome, {.decode = 2, .vision = 1, .engine = 1}) ==
          "busy: decode 0 % vision 0 % engine 55 % cache look-up 90 %; cache look-up limits");
    CHECK(describe_speed(outcome) ==
          "1 clip captioned, 3 files in folders are no videos in 1 s: 1 clips/s, 30 output "
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
