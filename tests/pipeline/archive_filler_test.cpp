#include "pipeline/internal/archive_filler.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

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
      // Ends where tokens were lost, too.
      constexpr int kMostWaits = 60'000;
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
}

}  // namespace
}  // namespace caption::pipeline
