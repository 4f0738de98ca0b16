// Tests of runs on several replicas of the model, some of which are lost.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "fake_model.h"
#include "pipeline/pipeline.h"

namespace caption::pipeline {
namespace {

using records::Record;
using records::Status;

constexpr std::int64_t kKvBytes = 1 << 16;

// Fake models, each with a counter of its steps.
struct Machines {
  explicit Machines(std::size_t count) : num_steps(count) {
    for (std::size_t i = 0; i < count; ++i) {
      models.push_back(std::make_unique<FakeModel>());
      replicas.push_back({.model = models.back().get(),
                          .kv_cache_bytes = kKvBytes,
                          .name = "device " + std::to_string(i)});
      models.back()->on_forward = [this, i] { ++num_steps[i]; };
    }
  }

  // Loses a replica at its engine's step number `step`, from 1 on.
  void lose_at_step(std::size_t replica, int step) {
    models[replica]->on_forward = [this, replica, step] {
      if (++num_steps[replica] >= step) {
        throw Error(ErrorCode::kUnavailable, "device " + std::to_string(replica) + " failed");
      }
    };
  }
  // Loses a replica when it encodes its clip number `count`, from 1 on.
  void lose_at_clip(std::size_t replica, int count) {
    models[replica]->on_encode = [replica, count, num_clips = 0](int) mutable {
      if (++num_clips >= count) {
        throw Error(ErrorCode::kUnavailable, "tower " + std::to_string(replica) + " failed");
      }
    };
  }

  std::vector<std::unique_ptr<FakeModel>> models;
  std::vector<Replica> replicas;
  std::vector<int> num_steps;  // each counted by one thread
};

// The captions by video and prompt; checks that there is one record of each and that it is right.
std::map<std::string, std::string> captions_of(const std::vector<Record>& records) {
  std::map<std::string, std::string> captions;
  for (const Record& record : records) {
    CAPTURE(record.video);
    CHECK(record.status == Status::kOk);
    const int shift = record.prompt.empty() ? 0 : std::stoi(record.prompt);
    CHECK(record.caption == expected_caption(clip_number(record.video), shift));
    CHECK(captions.emplace(record.video + " " + record.prompt, record.caption).second);
  }
  return captions;
}

// As an output, it finds the records of equal content that it has.
class FindingSink final : public KeepingSinkBase {
 public:
  records::AppendResult append(const Record& record) override {
    const std::lock_guard lock(mutex_);
    return KeepingSinkBase::append(record);
  }
  records::Earlier find(const records::ClipIdentity& clip, const std::string& video,
                        std::string_view /*caption*/) override {
    const std::lock_guard lock(mutex_);
    for (const Record& record : kept) {
      if (record.id != clip.id) continue;
      Record copy = record;
      copy.copy_of = record.file.value_or(records::ClipFile{}).path;
      copy.video = video;
      copy.file = clip.file;
      return {.kind = records::Earlier::Kind::kElsewhere, .record = std::move(copy)};
    }
    return {};
  }

 private:
  std::mutex mutex_;
};

TEST_SUITE("pipeline/replicas") {
  TEST_CASE("several replicas give the records of one, and each makes some") {
    constexpr int kClips = 200;
    for (const engine::BatchMode mode :
         {engine::BatchMode::kContinuous, engine::BatchMode::kStatic}) {
      for (const std::int64_t queue_bytes : {std::int64_t{1}, std::int64_t{1} << 20}) {
        CAPTURE(queue_bytes);
        Machines machines(3);
        Options options = fake_options();
        options.engine.batching = mode;
        options.frame_queue_bytes = options.vision_queue_bytes = queue_bytes;
        std::int64_t last_done = 0;
        options.on_progress = [&](const Progress& progress) {
          CHECK(progress.clips_done >= last_done);
          last_done = progress.clips_done;
        };
        KeepingSink sink;
        const Outcome outcome = run(machines.replicas, clips(kClips), options, sink);
        CHECK(outcome.ending == Ending::kFinished);
        CHECK(outcome.progress.clips_done == kClips);
        CHECK(outcome.progress.work.num_replicas == 3);
        CHECK(outcome.progress.work.clips_encoded == kClips);
        CHECK(captions_of(sink.kept).size() == kClips);
        std::int64_t num_steps = 0;
        for (const int steps : machines.num_steps) num_steps += steps;
        CHECK(outcome.engine.steps == num_steps);
        std::int64_t num_tokens = 0;
        for (const Record& record : sink.kept) num_tokens += record.output_tokens;
        CHECK(outcome.progress.output_tokens == num_tokens);
        // The first token of a caption is chosen in its prefill step.
        CHECK(outcome.engine.decode_tokens == num_tokens - kClips);
      }
    }
  }

  TEST_CASE("a slow replica gets fewer clips") {
    Machines machines(2);
    std::atomic<int> num_fast = 0;
    machines.models[0]->on_encode = [&](int) {
      while (num_fast < 90) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    machines.models[1]->on_encode = [&](int) { ++num_fast; };
    Options options = fake_options();
    options.frame_queue_bytes = options.vision_queue_bytes = 1;
    KeepingSink sink;
    run(machines.replicas, clips(100), options, sink);
    CHECK(captions_of(sink.kept).size() == 100);
    CHECK(num_fast >= 90);
  }

  TEST_CASE("whenever a replica is lost, no record is lost and none is written twice") {
    constexpr int kClips = 60;
    for (const int when : {1, 2, 3, 7, 20, 40}) {
      for (const bool in_engine : {true, false}) {
        CAPTURE(when);
        CAPTURE(in_engine);
        Machines machines(2);
        in_engine ? machines.lose_at_step(when % 2, when) : machines.lose_at_clip(when % 2, when);
        Options options = fake_options();
        options.prompts = {{.name = "20", .text = "+20"}, {.name = "40", .text = "+40"}};
        KeepingSink sink;
        const Outcome outcome = run(machines.replicas, clips(kClips), options, sink);
        CHECK(outcome.ending == Ending::kFinished);
        CHECK(outcome.progress.clips_done == 2 * kClips);
        CHECK(outcome.progress.clips_total == 2 * kClips);
        CHECK(outcome.progress.work.clips_read == kClips);
        CHECK(captions_of(sink.kept).size() == 2 * kClips);
      }
    }
  }

  TEST_CASE("a replica may be lost while a clip is submitted to its engine") {
    constexpr int kClips = 40;
    for (const int when : {1, 2, 15}) {
      CAPTURE(when);
      Machines machines(2);
      Options options = fake_options();
      std::atomic<int> num_requests = 0;
      options.on_request = [&](const Record&, engine::Request&) {
        if (++num_requests == when) throw Error(ErrorCode::kUnavailable, "the GPU is lost");
      };
      KeepingSink sink;
      const Outcome outcome = run(machines.replicas, clips(kClips), options, sink);
      CHECK(outcome.ending == Ending::kFinished);
      CHECK(captions_of(sink.kept).size() == kClips);
      CHECK(num_requests > kClips);  // what the lost engine had begun is submitted again, too
    }
  }

  TEST_CASE("clips of equal content are captioned once, by whichever replica") {
    constexpr int kClips = 20;
    const InputList films = clips(kClips);
    std::vector<std::pair<std::string, Origin>> paths;
    for (int i = 0; i < kClips; ++i) {
      paths.emplace_back(clip_name(i), Origin::kNamed);
      const std::string copy = clip_name(i) + "_again";
      write_file(copy, "film " + std::to_string(i));
      paths.emplace_back(copy, Origin::kNamed);
    }
    Machines machines(3);
    machines.lose_at_step(1, 3);
    FindingSink sink;
    const Outcome outcome = run(machines.replicas, list_of(paths), fake_options(), sink);
    CHECK(outcome.progress.clips_captioned == kClips);
    CHECK(outcome.progress.clips_copied == kClips);
    CHECK(captions_of(sink.kept).size() == 2 * kClips);
  }

  TEST_CASE("with all but one replica lost the run goes on; with the last one it ends") {
    Machines machines(3);
    machines.lose_at_step(0, 2);
    machines.lose_at_clip(2, 4);
    KeepingSink sink;
    CHECK(run(machines.replicas, clips(50), fake_options(), sink).ending == Ending::kFinished);
    CHECK(sink.kept.size() == 50);
    for (const Record& record : sink.kept) {
      // A clip that was under way on both is not tried a third time.
      if (record.error.has_value()) CHECK(record.error->code == "unavailable");
    }

    for (const int last : {0, 1, 2}) {
      CAPTURE(last);
      Machines lost(3);
      for (int i = 0; i < 3; ++i) lost.lose_at_step(i, i == last ? 30 : 3);
      KeepingSink kept;
      std::atomic<bool> stop{false};
      Options options = fake_options();
      options.stop = &stop;
      CHECK_THROWS_WITH_AS(run(lost.replicas, clips(400), options, kept),
                           doctest::Contains("failed"), Error);
      CHECK(stop.load());
      std::set<std::string> videos;
      for (const Record& record : kept.kept) {
        CHECK(videos.insert(record.video).second);
        if (!record.error.has_value()) {
          CHECK(record.caption == expected_caption(clip_number(record.video)));
        }
      }
    }
  }

  TEST_CASE("a single replica that is lost ends the run, and its clips have no records") {
    for (const bool in_engine : {true, false}) {
      Machines machines(1);
      in_engine ? machines.lose_at_step(0, 10) : machines.lose_at_clip(0, 10);
      KeepingSink sink;
      CHECK_THROWS_WITH_AS(run(machines.replicas, clips(100), fake_options(), sink),
                           in_engine ? "device 0 failed" : "tower 0 failed", Error);
      CHECK(captions_of(sink.kept).size() < 100);
    }
  }

  TEST_CASE("a clip that every device fails at is tried twice") {
    Machines machines(3);
    for (auto& model : machines.models) {
      model->on_encode = [](int number) {
        if (number == 7) throw Error(ErrorCode::kUnavailable, "the driver dislikes 7");
      };
    }
    KeepingSink sink;
    const Outcome outcome = run(machines.replicas, clips(40), fake_options(), sink);
    CHECK(outcome.ending == Ending::kFinished);
    std::set<std::string> videos;
    for (const Record& record : sink.kept) {
      CAPTURE(record.video);
      CHECK(videos.insert(record.video).second);
      if (record.video == "clip_7") {
        REQUIRE(record.error.has_value());
        CHECK(record.error->code == "unavailable");
        CHECK(record.error->message ==
              "clip_7: captioning it: 2 devices were lost meanwhile; the same command tries it "
              "again");
      }
    }
    CHECK(videos.size() == 40);
    CHECK(outcome.progress.clips_done == 40);
  }

  TEST_CASE("a lost device gets no further clip, and is not blamed for one") {
    Machines machines(2);
    std::atomic<bool> is_lost{false};
    std::atomic<bool> is_other_busy{false};
    std::atomic<bool> is_last_read{false};
    std::atomic<int> num_encoded{0};  // counts the clips that the lost device has encoded
    const auto wait_for = [](const auto& condition) {
      while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    // Each device has one of the first two clips; then the engine of the first one fails.
    static thread_local bool has_failed = false;
    machines.models[0]->on_encode = [&](int) {
      ++num_encoded;
      wait_for([&] { return is_other_busy.load(); });
    };
    machines.models[0]->on_forward = [] {
      has_failed = true;
      throw Error(ErrorCode::kUnavailable, "device 0 failed");
    };
    // The other device leaves the last clip to the lost one for a while.
    machines.models[1]->on_encode = [&](int) {
      is_other_busy = true;
      wait_for([&] { return is_last_read.load(); });
      for (int i = 0; i < 200 && num_encoded < 2; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    };
    Options options = fake_options();
    options.on_progress = [&](const Progress&) {
      if (has_failed) is_lost = true;  // on the thread of the engine that failed
    };
    options.read_clip = [&](const OpenFile& file, const video::ReadOptions& how) {
      const bool is_last = file.path().filename() == clip_name(2);
      if (is_last) wait_for([&] { return is_lost.load(); });
      video::Clip clip = make_clip(file, how);
      if (is_last) is_last_read = true;
      return clip;
    };
    KeepingSink sink;
    CHECK(run(machines.replicas, clips(3), options, sink).ending == Ending::kFinished);
    CHECK(captions_of(sink.kept).size() == 3);
    CHECK(num_encoded == 1);
  }

  TEST_CASE("a clip that is replaced before it is read again fails") {
    const InputList inputs = clips(1);
    write_file("clip_900", "before");
    Machines machines(2);
    for (auto& model : machines.models) {
      model->on_encode = [](int) {
        static std::atomic<bool> is_first{true};
        if (!is_first.exchange(false)) return;
        write_file("clip_900", "after, and longer");
        throw Error(ErrorCode::kUnavailable, "lost");
      };
    }
    KeepingSink sink;
    run(machines.replicas, list_of({{"clip_900", Origin::kNamed}}), fake_options(), sink);
    REQUIRE(sink.kept.size() == 1);
    REQUIRE(sink.kept[0].error.has_value());
    CHECK(sink.kept[0].error->code == "changed");
  }

  TEST_CASE("several replicas end early together") {
    for (const int stop_after : {1, 20}) {
      Machines machines(3);
      Options options = fake_options();
      std::atomic<bool> stop{false};
      options.stop = &stop;
      KeepingSink sink;
      sink.on_append = [&](const Record&) {
        if (static_cast<int>(sink.kept.size()) + 1 == stop_after) stop.store(true);
      };
      const Outcome outcome = run(machines.replicas, clips(1000), options, sink);
      CHECK(outcome.ending == Ending::kCancelled);
      CHECK(captions_of(sink.kept).size() < 1000);
    }
    {
      Machines machines(3);
      KeepingSink sink;
      sink.on_append = [&](const Record&) {
        if (sink.kept.size() == 3) sink.result = records::AppendResult::kReaderGone;
      };
      CHECK(run(machines.replicas, clips(1000), fake_options(), sink).ending ==
            Ending::kReaderGone);
      CHECK(sink.kept.size() == 3);
    }
    for (const std::size_t broken : {0, 1, 2}) {
      Machines machines(3);
      std::atomic<int> num_steps = 0;
      for (auto& model : machines.models) {
        model->on_encode = [&, is_broken = model == machines.models[broken]](int) {
          // The others leave it enough clips.
          while (!is_broken && num_steps < 5) std::this_thread::yield();
        };
      }
      machines.models[broken]->on_forward = [&] {
        if (++num_steps == 5) throw Error(ErrorCode::kInternal, "broken");
      };
      KeepingSink sink;
      CHECK_THROWS_WITH_AS(run(machines.replicas, clips(1000), fake_options(), sink), "broken",
                           Error);
    }
    Machines machines(2);
    KeepingSink sink;
    sink.on_append = [&](const Record&) {
      if (sink.kept.size() == 3) throw Error(ErrorCode::kIo, "disk full");
    };
    CHECK_THROWS_WITH_AS(run(machines.replicas, clips(1000), fake_options(), sink), "disk full",
                         Error);
    CHECK(sink.kept.size() == 3);
  }
}

}  // namespace
}  // namespace caption::pipeline
