// Clips that wait for the record of another file with their content.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_model.h"
#include "pipeline/pipeline.h"

namespace caption::pipeline {
namespace {

using records::Earlier;
using records::Record;

constexpr const char* kOther = "clip_2";

// Answers the first look-up with a failed record, as that of a broken film that is not tried again;
// a failed record is not given to other files. This answer comes only after kOther was looked up,
// when a file of equal content already waits for the first file's record.
class FailedOnceSink final : public KeepingSinkBase {
 public:
  Earlier find(const records::ClipIdentity& /*clip*/, const std::string& video,
               std::string_view /*caption*/) override {
    if (video == kOther) {
      other_is_looked_for_.store(true);
      return {};
    }
    if (is_found_.exchange(true)) return {};
    constexpr int kMostWaits = 20'000;
    for (int i = 0; i < kMostWaits && !other_is_looked_for_.load(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    has_waited_ = other_is_looked_for_.load();
    found_ = video;
    return {.kind = Earlier::Kind::kFinished, .status = records::Status::kFailed};
  }

  const std::string& found() const { return found_; }
  bool has_waited() const { return has_waited_; }

 private:
  std::atomic<bool> other_is_looked_for_{false};
  std::atomic<bool> is_found_{false};
  std::string found_;
  bool has_waited_ = false;
};

TEST_SUITE("pipeline/followers") {
  TEST_CASE("a clip whose content has a failed record under another name is read itself") {
    FakeModel model;
    const InputList three = clips(3);
    write_file("clip_7", "a film");
    write_file("clip_8", "a film");
    FailedOnceSink sink;
    const InputList inputs =
        list_of({{"clip_7", Origin::kNamed}, {"clip_8", Origin::kNamed}, {kOther, Origin::kNamed}});
    const Outcome outcome = run(model, inputs, fake_options(), sink);
    std::filesystem::remove("clip_7");
    std::filesystem::remove("clip_8");
    REQUIRE(sink.has_waited());
    CHECK(outcome.ending == Ending::kFinished);
    CHECK(outcome.progress.clips_found == 1);
    CHECK(outcome.progress.found_failed == 1);
    CHECK(outcome.progress.clips_captioned == 2);
    REQUIRE(sink.kept.size() == 2);
    const std::string expected = sink.found() == "clip_7" ? "clip_8" : "clip_7";
    CHECK(std::any_of(sink.kept.begin(), sink.kept.end(), [&](const Record& record) {
      return record.video == expected && record.copy_of.empty();
    }));
    for (const Record& record : sink.kept) {
      CAPTURE(record.video);
      CHECK(record.status == records::Status::kOk);
      CHECK(record.caption == expected_caption(clip_number(record.video)));
    }
  }

  TEST_CASE("copies count as passed by every stage whose mean time tells what is left") {
    FakeModel model;
    constexpr int kNumCopies = 6;
    const InputList two = clips(2);  // clip_0 and clip_1
    std::vector<std::pair<std::string, Origin>> paths = {{"clip_0", Origin::kNamed}};
    for (int i = 0; i < kNumCopies; ++i) {
      paths.emplace_back(clip_name(100 + i), Origin::kNamed);
      write_file(paths.back().first, "film 0");
    }
    paths.emplace_back("clip_1", Origin::kNamed);
    Options options = fake_options();
    // One thread keeps the order of the clips, so that clip_1 passes the stages after all others.
    // clip_0 waits for clip_1, so that all copies are looked at before clip_0 has its caption.
    options.threads.decode = 1;
    std::promise<void> last_is_read;
    options.read_clip = [&](const OpenFile& file, const video::ReadOptions& read) {
      if (file.path() == "clip_1") last_is_read.set_value();
      return make_clip(file, read);
    };
    model.on_encode = [&](int number) {
      if (number == 0) last_is_read.get_future().wait();
    };
    options.on_progress = [](const Progress& now) { CHECK(now.num_settled() <= now.num_wanted()); };
    KeepingSink sink;
    const Progress end = run(model, list_of(paths), options, sink).progress;
    for (int i = 0; i < kNumCopies; ++i) std::filesystem::remove(clip_name(100 + i));
    CHECK(end.clips_copied == kNumCopies);
    CHECK(end.num_settled() == kNumCopies + 2);
    CHECK(end.num_wanted() == kNumCopies + 2);
    CHECK(end.work.clips_looked_at == kNumCopies + 2);
    CHECK(end.work.clips_read == kNumCopies + 2);
    CHECK(end.work.clips_encoded == kNumCopies + 2);
  }
}

}  // namespace
}  // namespace caption::pipeline
