// Drafts of captions: those of a second model, from the video that it encodes itself, and those
// from the captions of the nearest clips.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "pipeline/internal/stages.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/fake_model.h"

namespace caption::pipeline {
namespace {

TEST_SUITE("pipeline/draft model") {
  TEST_CASE("every clip gets its own caption, and the draft model sees the clip, too") {
    constexpr int kNumClips = 60;
    for (const bool is_static : {false, true}) {
      for (const int max_num_seqs : {1, 16}) {
        CAPTURE(is_static);
        CAPTURE(max_num_seqs);
        FakeModel model;
        FakeModel draft;
        Options options = fake_options();
        options.engine.batching =
            is_static ? engine::BatchMode::kStatic : engine::BatchMode::kContinuous;
        options.engine.max_num_seqs = max_num_seqs;
        options.drafts.how = {
            .method = drafts::Method::kModel, .max_drafts = 3, .is_adaptive = false};
        const Replica replica = {.model = &model,
                                 .kv_cache_bytes = options.engine.kv_cache_bytes,
                                 .draft = &draft,
                                 .draft_kv_cache_bytes = options.engine.kv_cache_bytes};
        KeepingSink sink;
        const Outcome outcome = run(std::span(&replica, 1), clips(kNumClips), options, sink);
        CHECK(outcome.progress.clips_done == kNumClips);
        REQUIRE(sink.kept.size() == kNumClips);
        for (const records::Record& record : sink.kept) {
          CHECK(record.caption == expected_caption(clip_number(record.video)));
        }
        // Only guesses after the end of a caption are wrong.
        const auto source = static_cast<std::size_t>(drafts::GuessSource::kModel);
        CHECK(outcome.drafts.accepted[source] > outcome.drafts.computed[source] / 2);
        // A right guess of the end gives no further token.
        CHECK(outcome.engine.accepted_tokens > 0);
        CHECK(outcome.engine.accepted_tokens <= outcome.drafts.accepted[source]);
      }
    }
  }

  TEST_CASE("a draft model that rests reads few clips, and captions are the same") {
    constexpr int kNumClips = 160;
    FakeModel model;
    FakeModel draft;
    std::atomic<int> num_read{0};
    // A pass takes as long as hundreds of the model's steps.
    draft.on_forward = [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };
    draft.on_encode = [&](int /*clip*/) { ++num_read; };
    Options options = fake_options();
    options.vision_queue_bytes = 64 << 10;
    options.drafts.how = {.method = drafts::Method::kModel, .max_drafts = 3};
    const Replica replica = {.model = &model,
                             .kv_cache_bytes = options.engine.kv_cache_bytes,
                             .draft = &draft,
                             .draft_kv_cache_bytes = options.engine.kv_cache_bytes};
    KeepingSink sink;
    run(std::span(&replica, 1), clips(kNumClips), options, sink);
    REQUIRE(sink.kept.size() == kNumClips);
    for (const records::Record& record : sink.kept) {
      CHECK(record.caption == expected_caption(clip_number(record.video)));
    }
    CHECK(num_read.load() > kNumClips / 16);
    CHECK(num_read.load() < kNumClips);
  }

  TEST_CASE("while the draft model rests, every 16th clip is read for it") {
    constexpr int kNumClips = 40;
    FakeModel model;
    FakeModel draft;
    std::vector<int> read;
    draft.on_encode = [&](int clip) { read.push_back(clip); };
    Options options = fake_options();
    options.prompts = {{.name = "", .text = "?"}};
    options.drafts.how = {.method = drafts::Method::kModel};
    KeepingSink sink;
    Shared shared{.options = options, .sink = sink};
    ReplicaDevice device("", shared);
    const Replica replica = {.model = &model, .draft = &draft};
    for (const bool rests : {true, false}) {
      DecodedQueue decoded(std::size_t{1} << 30);
      EncodedQueue encoded(std::size_t{1} << 30);
      VisionStage stage(replica, shared, device, {}, decoded, encoded);
      device.set_draft_rests(rests);
      const InputList inputs = clips(kNumClips);
      for (int i = 0; i < kNumClips; ++i) {
        DecodedJob job;
        job.job.record.video = clip_name(i);
        job.job.tasks.emplace_back();
        job.clip = make_clip(OpenFile(clip_name(i)), options.read);
        decoded.push(std::move(job), 1);
      }
      decoded.close();
      read.clear();
      stage.start();
      for (int i = 0; i < kNumClips; ++i) {
        const std::optional<EncodedJob> job = encoded.pop();
        REQUIRE(job.has_value());
        CHECK(job->requests.size() == 1);
        CHECK(job->draft_prompts.size() == (rests && i % 16 != 0 ? 0 : 1));
      }
      stage.wait();
      CHECK(read.size() == (rests ? 3 : kNumClips));
    }
  }

  TEST_CASE("captions copied from other clips change none, right or wrong") {
    constexpr int kNumClips = 60;
    for (const bool is_static : {false, true}) {
      for (const int max_num_seqs : {1, 16}) {
        CAPTURE(is_static);
        CAPTURE(max_num_seqs);
        FakeModel model;
        Options options = fake_options();
        options.engine.batching =
            is_static ? engine::BatchMode::kStatic : engine::BatchMode::kContinuous;
        options.engine.max_num_seqs = max_num_seqs;
        options.drafts.how = {.method = drafts::Method::kArchive, .is_adaptive = false};
        const Replica replica = {.model = &model, .kv_cache_bytes = options.engine.kv_cache_bytes};
        KeepingSink sink;
        const Outcome outcome = run(std::span(&replica, 1), clips(kNumClips), options, sink);
        REQUIRE(sink.kept.size() == kNumClips);
        for (const records::Record& record : sink.kept) {
          CHECK(record.caption == expected_caption(clip_number(record.video)));
        }
        const auto source = static_cast<std::size_t>(drafts::GuessSource::kCopy);
        CHECK(outcome.drafts.computed[source] > 0);
        CHECK(outcome.drafts.accepted[source] < outcome.drafts.computed[source]);
      }
    }
  }
}

}  // namespace
}  // namespace caption::pipeline
