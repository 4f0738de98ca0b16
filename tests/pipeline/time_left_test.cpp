// Tests the estimate of the time left.
#include "pipeline/time_left.h"

#include <doctest/doctest.h>

namespace caption::pipeline {
namespace {

constexpr double kSecond = 1e6;

// 20 of 100 clips are done; a clip takes 1 s to read, 0.2 s to encode and 0.1 s to caption.
Progress a_fifth() {
  Progress progress{.clips_total = 100, .clips_done = 20, .clips_captioned = 20};
  progress.work = {
      .busy = {.decode_us = 20'000'000, .vision_us = 4'000'000, .engine_us = 2'000'000},
      .num_decode_threads = 2,
      .num_inputs = 100,
      .clips_looked_at = 20,
      .clips_read = 20,
      .clips_encoded = 20,
      .captions_made = 20};
  return progress;
}

double left_s(const Progress& progress) { return time_left_us(progress).value_or(-1) / kSecond; }

TEST_SUITE("pipeline/time_left") {
  TEST_CASE("the slowest stage decides") {
    constexpr WorkLeft kLeft = {.clips_to_read = 10, .clips_to_encode = 12, .captions = 40};
    CHECK(time_needed_us({.read_us = 8, .vision_us = 2, .engine_us = 0.5}, kLeft, 1) == 80);
    CHECK(time_needed_us({.read_us = 8, .vision_us = 2, .engine_us = 0.5}, kLeft, 4) == 24);
    CHECK(time_needed_us({.read_us = 8, .vision_us = 1, .engine_us = 0.5}, kLeft, 4) == 24);
    CHECK(time_needed_us({.read_us = 0, .vision_us = 1, .engine_us = 0.5}, kLeft, 4) == 20);
    CHECK(time_needed_us({}, kLeft, 4) == 0);
  }

  TEST_CASE("a run goes on at the pace of its slowest stage, whatever the clock says") {
    Progress progress = a_fifth();
    CHECK(left_s(progress) == doctest::Approx(40));  // 80 clips of 1 s each on two threads
    progress.elapsed_us = 3'600'000'000;
    CHECK(left_s(progress) == doctest::Approx(40));
    progress.work.busy.vision_us = 20'000'000;
    CHECK(left_s(progress) == doctest::Approx(80));
    progress.work.busy.engine_us = 40'000'000;
    CHECK(left_s(progress) == doctest::Approx(160));
    progress.work.busy = {.identity_us = 60'000'000};
    CHECK(left_s(progress) == doctest::Approx(120));  // 3 s of hashing per clip
  }

  TEST_CASE("replicas of the model share its work, and not the decoding") {
    Progress progress = a_fifth();
    progress.work.num_replicas = 4;
    progress.work.busy.vision_us = 20'000'000;
    CHECK(left_s(progress) == doctest::Approx(40));
    progress.work.busy.engine_us = 80'000'000;
    CHECK(left_s(progress) == doctest::Approx(80));
  }

  TEST_CASE("what waits in a queue is done by the stages before it") {
    Progress progress = a_fifth();
    progress.work.clips_looked_at = progress.work.clips_read = 100;
    progress.work.busy.decode_us = 100'000'000;
    progress.work.clips_encoded = 30;
    progress.work.busy.vision_us = 6'000'000;
    CHECK(left_s(progress) == doctest::Approx(14));  // 70 clips of 0.2 s each
    progress.work.clips_encoded = 100;
    progress.work.busy.vision_us = 20'000'000;
    CHECK(left_s(progress) == doctest::Approx(8));  // 80 clips of 0.1 s each
  }

  TEST_CASE("captions that are being written count by what is written of them") {
    Progress progress = a_fifth();
    progress.work.clips_looked_at = progress.work.clips_read = progress.work.clips_encoded = 100;
    progress.work.captions_begun = 30;
    progress.work.captions_made = 50;
    progress.work.busy.engine_us = 5'000'000;
    CHECK(left_s(progress) == doctest::Approx(5));  // 50 clips of 0.1 s each
  }

  TEST_CASE("clips that cost nothing lower the mean: failures, copies, hits of the cache") {
    Progress progress = a_fifth();
    progress.clips_done = 40;
    progress.work.clips_looked_at = progress.work.clips_read = 40;
    progress.work.clips_encoded = 40;
    CHECK(left_s(progress) == doctest::Approx(15));  // 60 clips of 0.5 s each on two threads
  }

  TEST_CASE("several prompts share a clip's reading, not the engine") {
    Progress progress = a_fifth();
    progress.num_prompts = 10;
    progress.clips_total = 1000;
    progress.clips_done = progress.clips_captioned = 200;
    progress.work.captions_made = 200;
    CHECK(left_s(progress) == doctest::Approx(40));
    progress.work.busy.engine_us = 20'000'000;
    CHECK(left_s(progress) == doctest::Approx(80));
  }

  TEST_CASE("nothing is told before each stage has finished a clip, or when all is done") {
    CHECK_FALSE(time_left_us({}).has_value());
    Progress progress = a_fifth();
    progress.work.captions_made = 0;
    CHECK_FALSE(time_left_us(progress).has_value());
    progress = a_fifth();
    progress.work.clips_encoded = 0;
    CHECK_FALSE(time_left_us(progress).has_value());
    progress = a_fifth();
    progress.work.clips_read = 0;
    CHECK_FALSE(time_left_us(progress).has_value());
    progress = a_fifth();
    progress.clips_total = 20;
    CHECK_FALSE(time_left_us(progress).has_value());
  }

  TEST_CASE("times are told as precisely as they are known") {
    CHECK(duration_text(0) == "1 s");
    CHECK(duration_text(40.4 * kSecond) == "40 s");
    CHECK(duration_text(59.6 * kSecond) == "1 min");
    CHECK(duration_text(190 * kSecond) == "3 min");
    CHECK(duration_text(3599 * kSecond) == "1 h 00 min");
    CHECK(duration_text(7500 * kSecond) == "2 h 05 min");
  }
}

}  // namespace
}  // namespace caption::pipeline
