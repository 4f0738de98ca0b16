#include "pipeline/internal/archive_filler.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tests/pipeline/fake_model.h"

namespace caption::pipeline {
namespace {

class NoSink final : public records::RecordSink {
 public:
  records::AppendResult append(const records::Record& /*record*/) override { return {}; }
};

struct Filling {
  FakeModel model;
  std::atomic<bool> stop{false};
  Options options;
  NoSink sink;
  Shared shared{.options = options, .sink = sink};
  std::shared_ptr<drafts::TokenArchive> archive =
      std::make_shared<drafts::TokenArchive>(std::int64_t{1} << 24);

  Filling() { options.stop = &stop; }
  std::int64_t num_tokens_of(const std::string& caption) const {
    const auto ids = model.tokenizer().encode(caption, text::AddedTokens::kPlainText,
                                              {.beginning = false, .end = false});
    return std::ssize(ids) + (model.eos_ids().empty() ? 0 : 1);
  }
};

TEST_SUITE("pipeline/archive_filler") {
  TEST_CASE("a few captions are in the archive at once, more of them later") {
    for (const std::size_t count : {std::size_t{3}, ArchiveFiller::kAtOnce + 500}) {
      CAPTURE(count);
      Filling filling;
      const std::string caption = "2 3 4";
      const std::int64_t expected =
          static_cast<std::int64_t>(count) * filling.num_tokens_of(caption);
      ArchiveFiller filler(filling.model, std::vector<std::string>(count, caption), filling.archive,
                           filling.shared);
      if (count == 3) CHECK(filling.archive->num_tokens() == expected);
      // The archive is looked at for 20 s at most, so that tokens that are lost fail the test.
      constexpr int kMostWaits = 20'000;
      for (int i = 0; i < kMostWaits && filling.archive->num_tokens() < expected; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      CHECK(filling.archive->num_tokens() == expected);
    }
  }

  TEST_CASE("what ends a run ends the filling") {
    Filling filling;
    filling.stop = true;
    const std::vector<std::string> captions(ArchiveFiller::kAtOnce + 1, "2 3 4");
    { const ArchiveFiller filler(filling.model, captions, filling.archive, filling.shared); }
    CHECK(filling.archive->num_tokens() == 0);
    CHECK_NOTHROW(filling.shared.breakdown.rethrow());
  }

  TEST_CASE("a caption that the tokenizer refuses costs no other one, and no run") {
    for (const std::size_t count : {std::size_t{3}, ArchiveFiller::kAtOnce + 1}) {
      CAPTURE(count);
      Filling filling;
      std::atomic<std::size_t> num_tokenised{0};
      filling.model.on_tokenise = [&](std::string_view text) {
        ++num_tokenised;
        if (text == "3") throw Error(ErrorCode::kTooLarge, "the pattern takes too long");
      };
      std::vector<std::string> captions(count, "2");
      captions[1] = "3";
      {
        const ArchiveFiller filler(filling.model, captions, filling.archive, filling.shared);
        constexpr int kMostWaits = 20'000;
        for (int i = 0; i < kMostWaits && num_tokenised < count; ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }
      CHECK(num_tokenised == count);
      CHECK(filling.archive->num_tokens() == static_cast<std::int64_t>(count) - 1);
      CHECK_NOTHROW(filling.shared.breakdown.rethrow());
    }
  }

  TEST_CASE("an error of the machine ends the filling, and the run") {
    Filling filling;
    std::atomic<bool> has_tokenised{false};
    filling.model.on_tokenise = [&](std::string_view) {
      has_tokenised = true;
      throw Error(ErrorCode::kOutOfMemory, "no memory");
    };
    const auto fill = [&](std::size_t count) {
      const ArchiveFiller filler(filling.model, std::vector<std::string>(count, "2"),
                                 filling.archive, filling.shared);
      constexpr int kMostWaits = 20'000;
      for (int i = 0; i < kMostWaits && !has_tokenised; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    };
    CHECK_THROWS_WITH_AS(fill(3), "no memory", Error);
    has_tokenised = false;
    fill(ArchiveFiller::kAtOnce + 1);
    CHECK_THROWS_WITH_AS(filling.shared.breakdown.rethrow(), "no memory", Error);
  }
}

}  // namespace
}  // namespace caption::pipeline
