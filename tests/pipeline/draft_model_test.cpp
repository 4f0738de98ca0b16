// Drafts of captions: of a second model, from the video that it encodes itself, and of the captions
// of the nearest clips.
#include <doctest/doctest.h>

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
