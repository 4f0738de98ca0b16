// Tests the progress messages of a run.
#include "pipeline/progress.h"

#include <doctest/doctest.h>

#include <string>

#include "base/display_width.h"
#include "base/utf8.h"

namespace caption::pipeline {
namespace {

// 4 of 10 clips are finished after 2 s, one of them failed; the others take 0.5 s each to read.
Progress some_progress() {
  Progress progress{.clips_total = 10,
                    .clips_done = 4,
                    .clips_captioned = 3,
                    .clips_failed = 1,
                    .output_tokens = 100,
                    .elapsed_us = 2'000'000};
  progress.work = {.busy = {.decode_us = 2'000'000, .vision_us = 400'000, .engine_us = 200'000},
                   .num_inputs = 10,
                   .clips_looked_at = 4,
                   .clips_read = 4,
                   .clips_encoded = 4,
                   .captions_made = 3};
  return progress;
}

TEST_SUITE("pipeline/progress") {
  TEST_CASE("the summary of drafts counts what a step gave and what was right") {
    Outcome outcome;
    CHECK(describe_drafts(outcome) == "");
    outcome.had_drafts = true;
    CHECK(describe_drafts(outcome) == "");  // nothing was decoded
    outcome.engine.decode_tokens = 300;
    CHECK(describe_drafts(outcome) ==
          "drafts: none was computed: no guess was found, or none was expected to save time");
    outcome.layer_search = {.num_texts = 6, .most_texts = 18};
    CHECK(describe_drafts(outcome) ==
          "drafts: none was computed: the search for the layers to leave out is not finished (6 of "
          "at most 18 pieces of captions scored); it takes dozens of captions of one run, and the "
          "next run begins it anew");
    outcome.layer_search.reset();
    outcome.found_layers = drafts::LeftOutLayers{.layers = {1, 2}, .gain = 1.4};
    CHECK(describe_drafts(outcome) ==
          "drafts: none was computed: the layers to leave out were found only near the end of the "
          "run; the next run guesses from its first caption on");
    outcome.found_layers = drafts::LeftOutLayers{};
    CHECK(describe_drafts(outcome) ==
          "drafts: none was computed: no set of layers to leave out promises to save time");
    outcome.found_layers.reset();
    outcome.engine.draft_tokens = 260;
    outcome.engine.accepted_tokens = 200;
    outcome.drafts.computed = {250, 10};
    outcome.drafts.accepted = {199, 1};
    CHECK(describe_drafts(outcome) ==
          "drafts: 3.00 tokens of a caption per step; archive: 199 of 250 right, 1.99 per step; "
          "ngram: 1 of 10 right, 0.0100 per step");
    outcome.drafted_steps = {.all = 80, .with_drafts = 60, .saved_us = 1.234e6};
    CHECK(describe_drafts(outcome).ends_with(
        "per step; in 75.0 % of the engine's steps, which saved about 1.23 s"));
    outcome.drafted_steps.saved_us = -5e3;
    CHECK(describe_drafts(outcome).ends_with(
        "which cost about 0.00500 s with all passes and searches for guesses"));
  }

  TEST_CASE("records with warnings are counted, and the last warning says what kind they are") {
    CHECK(describe_warned({}) == "");
    CHECK(describe_warned({.clips_warned = 1, .last_warning = "a.mp4: fps=2 gives more"}) ==
          "1 record has warnings; the last one: a.mp4: fps=2 gives more");
  }

  TEST_CASE("rates are per second of the run") {
    const Progress progress = some_progress();
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

  TEST_CASE("clips that had their records before count among those that are settled") {
    Progress progress{.clips_total = 4, .clips_kept = 1, .clips_found = 95};
    progress.elapsed_us = 5'000'000;
    CHECK(describe_progress(progress) == "96/100 clips");
    progress.clips_done = 2;
    progress.clips_moved = progress.clips_copied = 1;
    // Records taken over from other names do not count as captions of this run.
    CHECK(describe_progress(progress) == "98/100 clips");
    Outcome outcome;
    outcome.progress = progress;
    outcome.progress.clips_kept = 0;
    CHECK(describe_speed(outcome) == "nothing to caption");
  }

  TEST_CASE("what was tried again in vain is said") {
    Outcome outcome;
    outcome.progress = {.clips_kept = 1, .elapsed_us = 5'000'000};
    CHECK(describe_speed(outcome) == "1 clip tried again, none came out better in 5 s");
    outcome.progress.clips_done = outcome.progress.clips_total = 2;
    outcome.progress.clips_captioned = outcome.progress.clips_failed = 1;
    CHECK(describe_speed(outcome).starts_with(
        "1 clip captioned, 1 tried again without a better record, 1 failed in 5 s: "));
  }

  TEST_CASE("files that are no videos are no clips, once that is known") {
    Progress progress{.clips_total = 10, .clips_done = 2};
    CHECK(describe_progress(progress) == "2/10 clips");
    progress.files_skipped = 3;
    progress.clips_total -= 3;
    CHECK(describe_progress(progress) == "2/7 clips");
    CHECK(live_line(progress, 80) == "2/7 clips");
    CHECK(is_line_due(ProgressStyle::kSparse, {-10'000'000, 4}, progress));
    CHECK_FALSE(is_line_due(ProgressStyle::kSparse, {-10'000'000, 5}, progress));
    Outcome unread;
    unread.progress = {.clips_found = 3, .folders_unread = 1};
    CHECK(describe_speed(unread) == "nothing to caption, 1 folder could not be read");
    // With two prompts a file counts twice.
    Outcome outcome;
    outcome.progress = {.num_prompts = 2, .files_skipped = 4};
    CHECK(describe_speed(outcome) == "nothing to caption, 2 files in folders are no videos");
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
    CHECK(describe_interruption({.clips_total = 1}) == "interrupted; 0 of 1 record written");
    CHECK(describe_interruption({.clips_total = 2, .clips_done = 1, .clips_found = 1}) ==
          "interrupted; 2 of 3 records written");
    Outcome outcome;
    outcome.progress = {.clips_total = 1,
                        .clips_done = 1,
                        .clips_captioned = 1,
                        .files_skipped = 1,
                        .output_tokens = 1,
                        .elapsed_us = 1'000'000};
    outcome.engine.mean_batch = 1.04;
    CHECK(describe_speed(outcome) ==
          "1 clip captioned, 1 file in folders is no video in 1 s: 1 clip/s, 1 output token/s, "
          "1 sequence per step");
    CHECK(describe_progress(outcome.progress) == "1/1 clip, 1 clip/s, 1 token/s");
    outcome.engine.mean_batch = 1.1;
    CHECK(describe_speed(outcome).ends_with("1.1 sequences per step"));
  }

  TEST_CASE("no time is told in the first seconds, and none of what is done") {
    Progress progress = some_progress();
    progress.elapsed_us = 1'999'999;
    CHECK(describe_progress(progress).find(" left") == std::string::npos);
    progress = some_progress();
    progress.clips_done = progress.clips_total;
    CHECK(describe_progress(progress).find(" left") == std::string::npos);
  }

  TEST_CASE("the live line fits: what matters least goes first, whole") {
    Progress progress = some_progress();
    progress.clips_suspicious = 2;
    progress.last_clip = "/archive/눈 오는 날/다리.mp4";
    struct Case {
      int columns;
      const char* line;
    };
    constexpr Case kCases[] = {
        {4, "4/10"},
        {3, ""},
        {20, "4/10, 3 s left"},
        {28, "4/10, 1 failed, 3 s left"},
        {40, "4/10 clips, 1 failed, 3 s left, 다리.mp4"},
        {43, "4/10 clips, 1 failed, 3 s left, 1.5 clips/s"},
        {80, "4/10 clips, 1 failed, 2 suspicious, 3 s left, 1.5 clips/s, .../다리.mp4"},
        {200,
         "4/10 clips, 1 failed, 2 suspicious, 3 s left, 1.5 clips/s, 50 tokens/s, "
         "/archive/눈 오는 날/다리.mp4"},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.columns);
      CHECK(live_line(progress, c.columns) == c.line);
    }
  }

  TEST_CASE("captions in doubt are counted in words, and none is not spoken of") {
    Progress progress;
    CHECK(describe_suspicious(progress).empty());
    CHECK(describe_truncated(progress).empty());
    progress.clips_suspicious = 1;
    progress.clips_truncated = 2;
    CHECK(describe_suspicious(progress) == "1 caption is suspicious: its record says why");
    CHECK(describe_truncated(progress) ==
          "2 captions are truncated: --max-new-tokens allows longer ones");
    progress.clips_suspicious = 3;
    CHECK(describe_suspicious(progress) == "3 captions are suspicious: each record says why");
  }

  TEST_CASE("no name breaks the live line") {
    std::string deep;
    for (int i = 0; i < 500; ++i) deep += "/폴더";
    const std::string names[] = {std::string(4000, 'x') + ".mp4",
                                 deep + "/클립.mp4",
                                 "\x1b[2J\r\n\t\x07.mp4",
                                 "\xff\xfe\x80.mp4",
                                 "\u202Egpj.4pm",
                                 "👩\u200D🚀👩\u200D🚀👩\u200D🚀👩\u200D🚀.mp4",
                                 std::string(3000, '\n'),
                                 "e" + std::string(4000, '\xCC'),
                                 ""};
    for (const std::string& name : names) {
      CAPTURE(name);
      Progress progress = some_progress();
      progress.last_clip = name;
      for (const int columns : {0, 1, 5, 19, 20, 39, 40, 79, 80, 199, 200}) {
        CAPTURE(columns);
        const std::string line = live_line(progress, columns);
        CHECK(display_width(line) <= columns);
        CHECK(printable(line) == line);
        CHECK(is_valid_utf8(line));
      }
    }
  }

  TEST_CASE("nothing has a rate before something was captioned") {
    Progress progress{.clips_total = 100, .elapsed_us = 3'000'000};
    CHECK(live_line(progress, 80) == "0/100 clips");
    progress.clips_done = progress.clips_failed = 50;
    progress.last_clip = "a.mp4";
    CHECK(live_line(progress, 80) == "50/100 clips, 50 failed, a.mp4");
    progress.clips_failed = 0;
    progress.clips_copied = 50;
    CHECK(live_line(progress, 80) == "50/100 clips, a.mp4");
  }

  TEST_CASE("lines are sparse where they stay") {
    const Progress tenth{.clips_total = 100, .clips_done = 30, .elapsed_us = 30'000'000};
    CHECK(is_line_due(ProgressStyle::kSparse, {20'000'000, 20}, tenth));
    CHECK_FALSE(is_line_due(ProgressStyle::kSparse, {20'000'001, 20}, tenth));
    CHECK_FALSE(is_line_due(ProgressStyle::kSparse, {20'000'000, 21}, tenth));
    CHECK(is_line_due(ProgressStyle::kSparse, {-30'000'000, 30}, tenth));
    CHECK(is_line_due(ProgressStyle::kLive, {29'800'000, 30}, tenth));
    CHECK_FALSE(is_line_due(ProgressStyle::kLive, {29'800'001, 29}, tenth));
    CHECK_FALSE(is_line_due(ProgressStyle::kSilent, {0, 0}, tenth));
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
                        .clips_captioned = 1,
                        .files_skipped = 3,
                        .output_tokens = 30,
                        .elapsed_us = 1'000'000};
    outcome.busy = {.decode_us = 1'000'000, .vision_us = 600'000, .engine_us = 550'000};
    CHECK(describe_busy(outcome, {.decode = 2, .vision = 1, .engine = 1}) ==
          "busy: hashing 0 % decode 50 % vision 60 % engine 55 %; vision is the slowest stage");
    StageTimes& busy = outcome.busy;
    busy = {.decode_us = 0, .cache_us = 1'800'000, .vision_us = 0, .engine_us = 550'000};
    CHECK(
        describe_busy(outcome, {.decode = 2, .vision = 1, .engine = 1}) ==
        "busy: hashing 0 % decode 0 % vision 0 % engine 55 % cache look-up 90 %; cache look-up is "
        "the slowest stage");
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
    outcome.engine.host_hit_tokens = 16;
    outcome.engine.disk_hit_tokens = 48;
    outcome.clips_seen_before = 2;
    CHECK(describe_caches(outcome) ==
          "prefix cache: 65 % of prompt tokens hit, 16 tokens from host memory, 48 tokens from "
          "disk; 2 clips seen before, neither decoded nor encoded");
  }
}

}  // namespace
}  // namespace caption::pipeline
