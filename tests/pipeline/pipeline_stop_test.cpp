// Tests runs that end early: by request, because the reader is gone, or by an error.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "base/error.h"
#include "fake_model.h"
#include "pipeline/pipeline.h"

namespace caption::pipeline {
namespace {

using records::Record;

TEST_SUITE("pipeline/stop") {
  TEST_CASE("a cancelled run keeps what is finished and ends soon, wherever it is") {
    for (const int stop_after : {0, 1, 7, 50}) {
      CAPTURE(stop_after);
      FakeModel model;
      Options options = fake_options();
      std::atomic<bool> stop{stop_after == 0};
      options.stop = &stop;
      options.frame_queue_bytes = 1;
      KeepingSink sink;
      sink.on_append = [&](const Record&) {
        if (static_cast<int>(sink.kept.size()) + 1 == stop_after) stop.store(true);
      };
      const Outcome outcome = run(model, clips(1000), options, sink);
      CHECK(outcome.ending == Ending::kCancelled);
      CHECK(static_cast<int>(sink.kept.size()) >= stop_after);
      CHECK(sink.kept.size() < 1000);
      CHECK(outcome.progress.clips_done == static_cast<std::int64_t>(sink.kept.size()));
      for (const Record& record : sink.kept) {
        CHECK(record.caption == expected_caption(clip_number(record.video)));
      }
    }
  }

  TEST_CASE("a decoder in the middle of a long clip hears of it, and its clip has no record") {
    FakeModel model;
    Options options = fake_options();
    std::atomic<bool> stop{false};
    std::atomic<int> num_waiting{0};
    options.stop = &stop;
    options.read_clip = [&](const OpenFile&, const video::ReadOptions& read) -> video::Clip {
      ++num_waiting;
      while (!read.cancelled->load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      throw Error(ErrorCode::kCancelled, "cancelled");
    };
    std::thread user([&] {
      while (num_waiting.load() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      stop.store(true);
    });
    KeepingSink sink;
    const Outcome outcome = run(model, clips(5), options, sink);
    user.join();
    CHECK(outcome.ending == Ending::kCancelled);
    CHECK(sink.kept.empty());
  }

  TEST_CASE("when nobody reads any more the run ends") {
    FakeModel model;
    Options options = fake_options();
    KeepingSink sink;
    sink.on_append = [&](const Record&) {
      if (sink.kept.size() == 3) sink.result = records::AppendResult::kReaderGone;
    };
    const Outcome outcome = run(model, clips(1000), options, sink);
    CHECK(outcome.ending == Ending::kReaderGone);
    CHECK(sink.kept.size() == 3);
  }

  TEST_CASE("an output that cannot be written ends the run with its error") {
    FakeModel model;
    KeepingSink sink;
    sink.on_append = [&](const Record&) {
      if (sink.kept.size() == 3) throw Error(ErrorCode::kIo, "disk full");
    };
    CHECK_THROWS_WITH_AS(run(model, clips(1000), fake_options(), sink), "disk full", Error);
    CHECK(sink.kept.size() == 3);
  }

  TEST_CASE("a model that breaks ends the run with its error") {
    FakeModel model;
    int num_steps = 0;
    model.on_forward = [&] {
      if (++num_steps == 5) throw Error(ErrorCode::kInternal, "broken");
    };
    KeepingSink sink;
    CHECK_THROWS_WITH_AS(run(model, clips(1000), fake_options(), sink), "broken", Error);
  }

  TEST_CASE("a model without finite logits is refused once, at the first clip") {
    FakeModel model;
    model.gives_nan = [](int) { return true; };
    KeepingSink sink;
    CHECK_THROWS_WITH_AS(run(model, clips(20), fake_options(), sink),
                         doctest::Contains("the model has no finite logits for this clip"), Error);
    CHECK(sink.kept.empty());
    CHECK_THROWS_WITH_AS(run(model, clips(20), fake_options(), sink),
                         doctest::Contains("captioned; download the model again, or try"), Error);
    model.broken_weight = "w: tensor \"a\" holds a number that is not finite (element 1)";
    CHECK_THROWS_WITH_AS(run(model, clips(20), fake_options(), sink),
                         doctest::Contains("; w: tensor \"a\" holds a number that is not finite "
                                           "(element 1): download the file again"),
                         Error);

    // A single clip for which it gives none, after others, is one failed record.
    model.gives_nan = [](int number) { return number == 15; };
    run(model, clips(20), fake_options(), sink);
    REQUIRE(sink.kept.size() == 20);
    for (const Record& record : sink.kept) {
      CHECK(record.error.has_value() == (record.video == "clip_15"));
      if (record.error.has_value()) CHECK(record.error->code == "bad_model");
    }
  }

  TEST_CASE("too little memory for pages is said before anything is read") {
    FakeModel model;
    Options options = fake_options();
    options.engine.kv_cache_bytes = 1;
    options.read_clip = [](const OpenFile&, const video::ReadOptions&) -> video::Clip {
      FAIL_CHECK("a clip was read");
      return {};
    };
    KeepingSink sink;
    try {
      run(model, clips(3), options, sink);
      FAIL_CHECK("ran without pages");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kOutOfMemory);
    }
  }
}

}  // namespace
}  // namespace caption::pipeline
