// Captions land on their own clips, whatever the order, the batch and the failures around them.
#include "pipeline/pipeline.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "fake_model.h"

namespace caption::pipeline {
namespace {

using records::Record;
using records::Status;

void check_all_captioned(const std::vector<Record>& records, int count) {
  std::set<int> numbers;
  for (const Record& record : records) {
    const int number = clip_number(record.video);
    CAPTURE(record.video);
    CHECK(record.status == Status::kOk);
    CHECK(record.caption == expected_caption(number));
    CHECK(record.window_end_s == doctest::Approx(number / 1000.0));
    CHECK(numbers.insert(number).second);
  }
  CHECK(static_cast<int>(numbers.size()) == count);
}

const Record& record_of(const KeepingSink& sink, const std::string& video) {
  const auto it = std::find_if(sink.kept.begin(), sink.kept.end(),
                               [&](const Record& record) { return record.video == video; });
  REQUIRE(it != sink.kept.end());
  return *it;
}

TEST_SUITE("pipeline/pipeline") {
  TEST_CASE("every clip gets its own caption once, in every kind of batch and queue") {
    struct Case {
      const char* name;
      engine::BatchMode batching;
      int max_num_seqs;
      int decode_threads;
      std::int64_t queue_bytes;
    };
    constexpr Case kCases[] = {
        {"one at a time", engine::BatchMode::kContinuous, 1, 1, 1},
        {"continuous", engine::BatchMode::kContinuous, 4, 3, 1 << 20},
        {"continuous, tight queues", engine::BatchMode::kContinuous, 16, 4, 1},
        {"static", engine::BatchMode::kStatic, 4, 3, 1 << 20},
        {"static, more places than clips", engine::BatchMode::kStatic, 500, 2, 1},
    };
    constexpr int kNumClips = 300;
    for (const Case& c : kCases) {
      CAPTURE(c.name);
      FakeModel model;
      Options options = fake_options();
      options.engine.batching = c.batching;
      options.engine.max_num_seqs = c.max_num_seqs;
      options.threads.decode = c.decode_threads;
      options.frame_queue_bytes = options.vision_queue_bytes = c.queue_bytes;
      options.read_clip = [](const std::filesystem::path& path, const video::ReadOptions& read) {
        const int number = clip_number(path.string());
        std::this_thread::sleep_for(std::chrono::microseconds(number * 7919 % 300));
        return make_clip(path, read);
      };
      KeepingSink sink;
      const Outcome outcome = run(model, clips(kNumClips), options, sink);
      CHECK(outcome.ending == Ending::kFinished);
      CHECK(outcome.progress.clips_done == kNumClips);
      check_all_captioned(sink.kept, kNumClips);
      if (c.max_num_seqs > 1) {
        CHECK_FALSE(std::is_sorted(sink.kept.begin(), sink.kept.end(),
                                   [](const Record& a, const Record& b) {
                                     return clip_number(a.video) < clip_number(b.video);
                                   }));
      }
    }
  }

  TEST_CASE("a clip that takes long to decode holds nobody up") {
    FakeModel model;
    Options options = fake_options();
    std::promise<void> other_is_written;
    std::shared_future<void> wait = other_is_written.get_future().share();
    options.read_clip = [&](const std::filesystem::path& path, const video::ReadOptions& read) {
      if (path == clip_name(0)) wait.wait();
      return make_clip(path, read);
    };
    KeepingSink sink;
    sink.on_append = [&, is_set = false](const Record&) mutable {
      if (!std::exchange(is_set, true)) other_is_written.set_value();
    };
    run(model, clips(3), options, sink);
    check_all_captioned(sink.kept, 3);
  }

  TEST_CASE("failed clips have records with code and reason, and the others go on") {
    FakeModel model;
    model.on_encode = [](int number) {
      if (number == 5) throw Error(ErrorCode::kTooLong, "5 is too long");
      if (number == 6) throw std::bad_alloc();
    };
    Options options = fake_options();
    options.read_clip = [](const std::filesystem::path& path, const video::ReadOptions& read) {
      const int number = clip_number(path.string());
      if (number == 1) throw Error(ErrorCode::kNotFound, "clip_\xff: not there");
      if (number == 2) throw std::bad_alloc();
      if (number == 3) throw std::runtime_error("surprise");
      video::Clip clip = make_clip(path, read);
      if (number == 4) clip.frames.clear();
      if (number == 7) {
        clip.frames.pop_back();
        clip.warnings = {"1 frame is missing"};
      }
      return clip;
    };
    KeepingSink sink;
    const Outcome outcome = run(model, clips(20), options, sink);
    CHECK(sink.kept.size() == 20);
    CHECK(outcome.progress.clips_failed == 6);
    struct Case {
      int number;
      const char* code;
    };
    constexpr Case kCases[] = {{1, "not_found"}, {2, "out_of_memory"}, {3, "internal"},
                               {4, "no_frames"}, {5, "too_long"},      {6, "out_of_memory"}};
    for (const Case& c : kCases) {
      CAPTURE(c.number);
      const Record record = record_of(sink, clip_name(c.number));
      CHECK(record.status == Status::kFailed);
      CHECK(record.caption == "");
      CHECK(record.finish_reason == "");
      REQUIRE(record.error.has_value());
      CHECK(record.error->code == c.code);
      CHECK(record.error->message != "");
    }
    CHECK(record_of(sink, "clip_1").error->message == "clip_\\xff: not there");
    CHECK(record_of(sink, "clip_7").frames_used == 1);
    CHECK(record_of(sink, "clip_7").frames_wanted == 2);
    CHECK(record_of(sink, "clip_7").warnings == std::vector<std::string>{"1 frame is missing"});
    for (const Record& record : sink.kept) {
      if (record.error) continue;
      CHECK(record.caption == expected_caption(clip_number(record.video)));
    }
  }

  TEST_CASE("a caption cut off at the limit says so") {
    FakeModel model;
    Options options = fake_options();
    options.sampling.max_new_tokens = 2;
    KeepingSink sink;
    run(model, clips(3), options, sink);
    CHECK(record_of(sink, "clip_0").status == Status::kOk);
    CHECK(record_of(sink, "clip_2").status == Status::kTruncated);
    CHECK(record_of(sink, "clip_2").finish_reason == "length");
    CHECK(record_of(sink, "clip_2").output_tokens == 2);
  }

  TEST_CASE(
      "files that are no videos are left out of folders only, and only if they do not claim") {
    FakeModel model;
    Options options = fake_options();
    options.read_clip = [](const std::filesystem::path& path, const video::ReadOptions& read) {
      if (path.string().starts_with("clip_")) return make_clip(path, read);
      throw Error(ErrorCode::kNotVideo, "no video");
    };
    const std::vector<Input> inputs = {{"clip_0", Origin::kFolderWalk},
                                       {"notes.txt", Origin::kFolderWalk},
                                       {"page.MP4", Origin::kFolderWalk},
                                       {"label.json", Origin::kNamed}};
    KeepingSink sink;
    const Outcome outcome = run(model, inputs, options, sink);
    CHECK(outcome.progress.files_skipped == 1);
    CHECK(outcome.progress.clips_total == 3);
    CHECK(outcome.progress.clips_done == 3);
    CHECK(record_of(sink, "page.MP4").error->code == "not_video");
    CHECK(record_of(sink, "label.json").error->code == "not_video");
  }

  TEST_CASE("decoding does not run further ahead than the queues allow") {
    FakeModel model;
    Options options = fake_options();
    options.threads.decode = 1;
    options.engine.max_num_seqs = 1;
    options.frame_queue_bytes = options.vision_queue_bytes = 1;
    std::atomic<int> num_read{0};
    options.read_clip = [&](const std::filesystem::path& path, const video::ReadOptions& read) {
      ++num_read;
      return make_clip(path, read);
    };
    KeepingSink sink;
    int furthest = 0;
    sink.on_append = [&](const Record&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      furthest = std::max(furthest, num_read.load() - static_cast<int>(sink.kept.size()));
    };
    run(model, clips(60), options, sink);
    // Two in the engine; one each in both queues, in the vision stage and in the decoder's hands;
    // one more that the decoder has begun.
    CHECK(furthest <= 2 + 1 + 1 + 1 + 1 + 1);
    check_all_captioned(sink.kept, 60);
  }

  TEST_CASE("nothing to do is done at once") {
    FakeModel model;
    KeepingSink sink;
    const Outcome outcome = run(model, {}, fake_options(), sink);
    CHECK(outcome.ending == Ending::kFinished);
    CHECK(sink.kept.empty());
  }
}

}  // namespace
}  // namespace caption::pipeline
