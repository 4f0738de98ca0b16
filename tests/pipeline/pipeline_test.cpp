// Tests that captions are assigned to their clips in any order and batch and next to failures.
#include "pipeline/pipeline.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <new>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/sha256.h"
#include "fake_model.h"
#include "pipeline/internal/suspicion.h"

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
      options.read_clip = [](const OpenFile& file, const video::ReadOptions& read) {
        const int number = clip_number(file.path().string());
        std::this_thread::sleep_for(std::chrono::microseconds(number * 7919 % 300));
        return make_clip(file, read);
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
    options.read_clip = [&](const OpenFile& file, const video::ReadOptions& read) {
      if (file.path() == clip_name(0)) wait.wait();
      return make_clip(file, read);
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
    options.read_clip = [](const OpenFile& file, const video::ReadOptions& read) {
      const int number = clip_number(file.path().string());
      if (number == 1) throw Error(ErrorCode::kNotFound, "clip_\xff: not there");
      if (number == 2) throw std::bad_alloc();
      if (number == 3) throw std::runtime_error("surprise");
      video::Clip clip = make_clip(file, read);
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
    CHECK(record_of(sink, "clip_1").error->message == "clip_1: reading it: clip_\\xff: not there");
    CHECK(record_of(sink, "clip_5").error->message == "clip_5: vision: 5 is too long");
    CHECK(record_of(sink, "clip_7").frames_used == 1);
    CHECK(record_of(sink, "clip_7").frames_wanted == 2);
    CHECK(record_of(sink, "clip_7").warnings == std::vector<std::string>{"1 frame is missing"});
    for (const Record& record : sink.kept) {
      if (record.error) continue;
      CHECK(record.caption == expected_caption(clip_number(record.video)));
    }
  }

  TEST_CASE("clips that wait are encoded together, and none that does not fit the pass") {
    constexpr int kClips = 12;
    const InputList inputs = clips(kClips);
    FakeModel model;
    model.share_of_pass = 0.25;
    std::atomic<int> num_read = 0;
    std::vector<std::size_t> batches;
    model.on_encode_clips = [&](std::size_t num_clips) {
      batches.push_back(num_clips);
      // Nothing is encoded before everything is read, so that most clips wait in the queue.
      while (num_read < kClips) std::this_thread::yield();
    };
    Options options = fake_options();
    options.read_clip = [&](const OpenFile& file, const video::ReadOptions& read) {
      video::Clip clip = make_clip(file, read);
      ++num_read;
      return clip;
    };
    KeepingSink sink;
    run(model, inputs, options, sink);
    REQUIRE(sink.kept.size() == kClips);
    for (const records::Record& record : sink.kept) {
      CHECK(record.caption == expected_caption(clip_number(record.video)));
    }
    CHECK(std::accumulate(batches.begin(), batches.end(), std::size_t{0}) == kClips);
    // Two clips may still be on their way into the queue when the first batch is encoded.
    CHECK(*std::max_element(batches.begin(), batches.end()) == 4);
  }

  TEST_CASE("a clip that cannot be encoded fails alone") {
    const InputList inputs = clips(9);
    FakeModel model;
    model.share_of_pass = 0.2;
    model.on_encode = [](int number) {
      if (number == 3) throw Error(ErrorCode::kTooLarge, "too large for the tower");
    };
    KeepingSink sink;
    run(model, inputs, fake_options(), sink);
    REQUIRE(sink.kept.size() == 9);
    for (const records::Record& record : sink.kept) {
      const int number = clip_number(record.video);
      CAPTURE(number);
      CHECK(record.error.has_value() == (number == 3));
      if (number != 3) CHECK(record.caption == expected_caption(number));
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
    options.read_clip = [](const OpenFile& file, const video::ReadOptions& read) {
      if (file.path().string().starts_with("clip_")) return make_clip(file, read);
      throw Error(ErrorCode::kNotVideo, "no video");
    };
    options.require_video = [](const OpenFile& file, const video::ReadOptions&) {
      if (file.path() == "notes.txt") throw Error(ErrorCode::kNotVideo, "no video");
    };
    clips(1);  // also sets the working folder
    for (const char* name : {"notes.txt", "page.MP4", "label.json"}) write_file(name, name);
    const InputList inputs = list_of({{"clip_0", Origin::kFolderWalk},
                                      {"notes.txt", Origin::kFolderWalk},
                                      {"page.MP4", Origin::kFolderWalk},
                                      {"label.json", Origin::kNamed}});
    KeepingSink sink;
    const Outcome outcome = run(model, inputs, options, sink);
    CHECK(outcome.progress.files_skipped == 1);
    CHECK(outcome.progress.clips_total == 3);
    CHECK(outcome.progress.clips_done == 3);
    CHECK(record_of(sink, "page.MP4").error->code == "not_video");
    CHECK(record_of(sink, "label.json").error->code == "not_video");
  }

  TEST_CASE("a clip with more frames at its rate than may be taken says so in its record") {
    struct Case {
      double fps;
      bool is_capped;
    };
    for (const Case& c : {Case{0.8, false}, Case{5, true}}) {
      CAPTURE(c.fps);
      FakeModel model;
      Options options = fake_options();
      options.read.sampling = {
          .strategy = video::SamplingStrategy::kFps, .num_frames = 8, .fps = c.fps};
      options.read_clip = [](const OpenFile& file, const video::ReadOptions& read) {
        video::Clip clip = make_clip(file, read);
        clip.duration_us = 10'000'000;
        return clip;
      };
      KeepingSink sink;
      run(model, clips(1), options, sink);
      REQUIRE(sink.kept.size() == 1);
      using Warnings = std::vector<std::string>;
      CHECK(sink.kept[0].warnings ==
            (c.is_capped ? Warnings{"fps=5 gives more frames of 10 s than --frames 8 allows; those "
                                    "taken are spread over the clip"}
                         : Warnings{}));
    }
  }

  TEST_CASE("clips of the same content are captioned once, and each has its record") {
    clips(3);
    write_file("same_a", "one film");
    write_file("same_b", "one film");
    write_file("same_c", "one film");
    for (const int decode_threads : {1, 3}) {
      CAPTURE(decode_threads);
      FakeModel model;
      Options options = fake_options();
      options.threads.decode = decode_threads;
      options.prompts = {{"p1", ""}, {"p2", "+20"}};
      options.require_video = [](const OpenFile&, const video::ReadOptions&) {};
      std::atomic<int> num_read{0};
      options.read_clip = [&](const OpenFile& file, const video::ReadOptions& read) {
        if (file.path().string().starts_with("clip_")) return make_clip(file, read);
        ++num_read;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return make_clip(OpenFile("clip_2"), read);
      };
      KeepingSink sink;
      const Outcome outcome = run(model,
                                  list_of({{"clip_0", Origin::kNamed},
                                           {"same_a", Origin::kNamed},
                                           {"same_b", Origin::kNamed},
                                           {"clip_1", Origin::kNamed},
                                           {"same_c", Origin::kFolderWalk}}),
                                  options, sink);
      CHECK(outcome.progress.clips_done == 10);
      CHECK(sink.kept.size() == 10);
      // This sink knows no earlier records; captions in progress must still not be made twice.
      CHECK(num_read >= 1);
      CHECK(num_read <= 3);
      // Each clip that was read makes one of its two captions or both: the other one may be in
      // progress for another clip.
      CHECK(outcome.progress.clips_copied >= 2 * (3 - num_read));
      CHECK(outcome.progress.clips_copied <= 6 - std::max(2, num_read.load()));
      for (const Record& record : sink.kept) {
        if (!record.video.starts_with("same_")) continue;
        CAPTURE(record.video);
        CHECK(record.caption == expected_caption(2, record.prompt == "p2" ? 20 : 0));
        CHECK(record.id == sha256_of(std::string_view("one film")).hex());
        CHECK(std::filesystem::path(record.file->path).filename() == record.video);
      }
    }
  }

  TEST_CASE("a broken film fails under each of its names") {
    clips(1);
    write_file("broken_a", "torn");
    write_file("broken_b", "torn");
    FakeModel model;
    Options options = fake_options();
    options.read_clip = [](const OpenFile& file, const video::ReadOptions&) -> video::Clip {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      throw Error(ErrorCode::kNoFrames, file.path().string() + ": nothing in it");
    };
    KeepingSink sink;
    const Outcome outcome =
        run(model, list_of({{"broken_a", Origin::kNamed}, {"broken_b", Origin::kNamed}}), options,
            sink);
    CHECK(outcome.progress.clips_failed == 2);
    for (const char* name : {"broken_a", "broken_b"}) {
      const Record record = record_of(sink, name);
      CHECK(record.error->code == "no_frames");
      CHECK(record.error->message.starts_with(name));
      CHECK(record.copy_of == "");
    }
  }

  TEST_CASE("a file that changes while it is read fails, and one that is renamed does not") {
    clips(2);
    write_file("growing", "film");
    write_file("renamed", "film of clip 1");
    FakeModel model;
    Options options = fake_options();
    options.read_clip = [](const OpenFile& file, const video::ReadOptions& read) {
      if (file.path() == "growing") {
        std::ofstream(file.path(), std::ios::app) << " and more";
      } else {
        std::filesystem::rename(file.path(), "renamed_meanwhile");
      }
      return make_clip(OpenFile("clip_1"), read);
    };
    KeepingSink sink;
    run(model, list_of({{"growing", Origin::kNamed}, {"renamed", Origin::kNamed}}), options, sink);
    CHECK(record_of(sink, "growing").error->code == "changed");
    CHECK(record_of(sink, "growing").id == "");
    CHECK(record_of(sink, "renamed").caption == expected_caption(1));
  }

  TEST_CASE("sampling depends on the clip's content, the prompt and the seed alone") {
    clips(1);
    write_file("twin_a", "clip of the same bytes");
    write_file("other", "clip of other bytes");
    const auto draw = [](const std::string& video, const std::string& prompt, std::uint64_t seed) {
      FakeModel model;
      Options options = fake_options();
      options.sampling.seed = seed;
      options.sampling.temperature = 1.0;
      options.sampling.num_logprobs = 0;
      options.prompts = {{"", prompt}};
      options.read_clip = [](const OpenFile&, const video::ReadOptions& read) {
        return make_clip(OpenFile("clip_0"), read);
      };
      KeepingSink sink;
      run(model, list_of({{video, Origin::kNamed}}), options, sink);
      return sink.kept.at(0).caption;
    };
    // The fake model's logits are nearly flat, so a sampled caption has many random tokens.
    const std::string drawn = draw("twin_a", "+1", 7);
    CHECK(draw("twin_a", "+1", 7) == drawn);
    std::filesystem::rename("twin_a", "twin_b");
    CHECK(draw("twin_b", "+1", 7) == drawn);
    CHECK(draw("other", "+1", 7) != drawn);
    CHECK(draw("twin_b", "+2", 7) != drawn);
    CHECK(draw("twin_b", "+1", 8) != drawn);
  }

  TEST_CASE("a model whose files change ends the run before a record of it is written") {
    FakeModel model;
    KeepingSink sink;
    sink.on_append = [&](const Record&) {
      if (sink.kept.size() == 2) model.changed_file = "weights changed";
    };
    CHECK_THROWS_WITH_AS(run(model, clips(50), fake_options(), sink), "weights changed", Error);
    CHECK(sink.kept.size() == 3);
  }

  TEST_CASE("a caption that repeats itself without end is suspicious") {
    FakeModel model;
    Options options = fake_options();
    options.prompts = {{"", ""}};
    // All tokens but one end the caption and are forbidden at first, so the remaining one is
    // repeated.
    for (std::int32_t id = 0; id < model.vocab_size(); ++id) {
      if (id != 'a') options.sampling.stop_ids.push_back(id);
    }
    options.sampling.min_new_tokens = options.sampling.max_new_tokens = 100;
    KeepingSink sink;
    CHECK(run(model, clips(1), options, sink).progress.clips_suspicious == 1);
    CHECK(sink.kept.at(0).finish_reason == "loop");
    CHECK(sink.kept.at(0).status == Status::kSuspicious);
    CHECK(sink.kept.at(0).reason == "the caption repeats \"95\"");
  }

  TEST_CASE("frames and captions that tell nothing are suspicious, with the reason") {
    clips(4);
    FakeModel model;
    Options options = fake_options();
    options.read_clip = [](const OpenFile& file, const video::ReadOptions& read) {
      video::Clip clip = make_clip(file, read);
      if (file.path() == "clip_3") {
        for (video::Frame& frame : clip.frames) std::fill(frame.rgb.begin(), frame.rgb.end(), 0);
      }
      return clip;
    };
    options.prompts = {{"", ""}};
    KeepingSink sink;
    const Outcome outcome = run(model, clips(4), options, sink);
    CHECK(outcome.progress.clips_suspicious == 1);
    CHECK(record_of(sink, "clip_3").status == Status::kSuspicious);
    CHECK(record_of(sink, "clip_3").reason == "every frame is black");
    CHECK(record_of(sink, "clip_3").caption != "");
    CHECK(record_of(sink, "clip_2").status == Status::kOk);
  }

  TEST_CASE("what speaks against a caption") {
    struct Case {
      const char* caption;
      const char* reason;  // beginning of the reason; empty: none
    };
    const Case cases[] = {
        {"", "the caption is empty"},
        {" \n", "the caption is empty"},
        {"눈 내리는 다리입니다.", ""},
        {"하얀 \xEF\xBF\xBD 눈", "the caption holds U+FFFD"},
        {"하얀\x01 눈", "the caption holds a control character"},
        {"하얀\xC2\x85 눈", "the caption holds a control character"},
        {"첫 줄\n둘째 줄\t끝", ""},
        {"천천히 천천히 천천히 지나갑니다.", ""},
        {"새가 새가 새가 새가 납니다.", "the caption repeats \"새가\""},
        {"흰 새가 납니다. 흰 새가 납니다. 끝.", ""},
        {"흰 새가 납니다. 흰 새가 납니다. 흰 새가 납니다.", "the caption repeats"},
        {"반짝반짝반짝반짝 빛나고, 하하하하하하하하 웃습니다.", ""},
        {"바다가 반짝반짝반짝반짝반짝 빛납니다.", "the caption repeats \"반짝\""},
        {"바다아아아아아아아아아", "the caption repeats \"아\""},
        {"물결물결물결물결물결물결물", "the caption repeats \"물결\""},
        {"---------- 1000000000 =-=-=-=-=-", ""},
        {"hahahahaha", "the caption repeats \"ha\""},
    };
    for (const Case& c : cases) {
      CAPTURE(c.caption);
      const std::string reason = suspicion_of_caption(c.caption);
      CHECK(reason.starts_with(c.reason));
      CHECK(reason.empty() == std::string(c.reason).empty());
    }
  }

  TEST_CASE("a caption without a character is not called empty, though it was cut") {
    FakeModel model;
    model.writes_no_characters = true;
    Options options = fake_options();
    options.sampling.max_new_tokens = 2;
    KeepingSink sink;
    run(model, clips(6), options, sink);
    const Record cut = record_of(sink, "clip_5");
    CHECK(cut.finish_reason == "length");
    CHECK(cut.status == Status::kSuspicious);
    CHECK(cut.caption == "\xEF\xBF\xBD\xEF\xBF\xBD");
    CHECK(cut.reason.starts_with("the caption holds U+FFFD"));
  }

  TEST_CASE("a model may declare that it cannot describe a clip") {
    const std::string unlike = "이 영상은 설명할 수 없습니다.";
    const std::string reason = suspicion_of_caption(unlike, unlike);
    CHECK(reason.find("declares that it cannot describe this clip") != std::string::npos);
    CHECK(suspicion_of_caption("\n 이 영상은 설명할 수 없습니다. ", unlike) == reason);
    CHECK(suspicion_of_caption(unlike, " " + unlike + "\n") == reason);
    CHECK(suspicion_of_caption(unlike).empty());
    CHECK(suspicion_of_caption(unlike + " 눈이 옵니다.", unlike).empty());
    CHECK(suspicion_of_caption("눈이 옵니다.", unlike).empty());
    CHECK(suspicion_of_caption("", unlike) == "the caption is empty");
  }

  TEST_CASE("a caption in which the model declares that it cannot describe the clip is marked") {
    FakeModel model;
    model.unlike = expected_caption(2);
    KeepingSink sink;
    const Outcome outcome = run(model, clips(4), fake_options(), sink);
    CHECK(outcome.progress.clips_suspicious == 1);
    CHECK(outcome.progress.clips_captioned == 4);
    CHECK(record_of(sink, "clip_2").status == Status::kSuspicious);
    CHECK(record_of(sink, "clip_2").reason.find("declares") != std::string::npos);
    CHECK(record_of(sink, "clip_2").caption == expected_caption(2));
    CHECK(record_of(sink, "clip_3").status == Status::kOk);
  }

  TEST_CASE("a caption of less than half of the wanted frames is marked") {
    FakeModel model;
    Options options = fake_options();
    options.read.sampling.num_frames = 8;
    options.read_clip = [](const OpenFile& file, const video::ReadOptions& read) {
      video::Clip clip = make_clip(file, read);
      clip.frames.resize(static_cast<std::size_t>(clip_number(file.path().string()) + 1));
      return clip;
    };
    KeepingSink sink;
    const Outcome outcome = run(model, clips(8), options, sink);
    CHECK(outcome.progress.clips_suspicious == 3);
    CHECK(record_of(sink, "clip_1").reason == "only 2 of 8 sampled frames could be decoded");
    for (int i = 0; i < 8; ++i) {
      const Record record = record_of(sink, clip_name(i));
      CHECK(record.frames_used == i + 1);
      CHECK(record.status == (i < 3 ? Status::kSuspicious : Status::kOk));
    }
  }

  TEST_CASE("what the stages did is measured, and the engine's time is shared out") {
    FakeModel model;
    KeepingSink sink;
    Options options = fake_options();
    Progress last;
    options.on_progress = [&](const Progress& progress) { last = progress; };
    const Outcome outcome = run(model, clips(20), options, sink);
    const StageWork& work = outcome.progress.work;
    CHECK(work.num_inputs == 20);
    CHECK(work.num_decode_threads == options.threads.decode);
    CHECK(work.clips_looked_at == 20);
    CHECK(work.clips_read == 20);
    CHECK(work.clips_encoded == 20);
    CHECK(work.captions_made == 20);
    CHECK(work.captions_begun == 0);
    CHECK(last.num_settled() == 20);
    CHECK(last.last_clip == sink.kept.back().video);
    double share_ms = 0;
    for (const Record& record : sink.kept) {
      CHECK(record.engine_ms > 0);
      share_ms += record.engine_ms;
    }
    // The engine's clock stops before the end of the call that is measured here.
    CHECK(share_ms >= static_cast<double>(work.busy.engine_us) / 1e3 * 0.99);
  }

  TEST_CASE("decoding does not run further ahead than the queues allow") {
    FakeModel model;
    Options options = fake_options();
    options.threads.decode = 1;
    options.engine.max_num_seqs = 1;
    options.frame_queue_bytes = options.vision_queue_bytes = 1;
    std::atomic<int> num_read{0};
    options.read_clip = [&](const OpenFile& file, const video::ReadOptions& read) {
      ++num_read;
      return make_clip(file, read);
    };
    KeepingSink sink;
    int furthest = 0;
    sink.on_append = [&](const Record&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      furthest = std::max(furthest, num_read.load() - static_cast<int>(sink.kept.size()));
    };
    run(model, clips(60), options, sink);
    // Two clips in the engine, one each in both queues, in the vision stage and held by the decode
    // thread, and one more that the decode thread has begun.
    CHECK(furthest <= 2 + 1 + 1 + 1 + 1 + 1);
    check_all_captioned(sink.kept, 60);
  }

  TEST_CASE("nothing to do is done at once") {
    FakeModel model;
    KeepingSink sink;
    const Outcome outcome = run(model, InputList(), fake_options(), sink);
    CHECK(outcome.ending == Ending::kFinished);
    CHECK(sink.kept.empty());
  }
}

}  // namespace
}  // namespace caption::pipeline
