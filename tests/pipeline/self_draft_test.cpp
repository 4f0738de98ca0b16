// The model without some of its layers guesses its own captions.
#include <doctest/doctest.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pipeline/pipeline.h"
#include "tests/pipeline/fake_model.h"

namespace caption::pipeline {
namespace {

constexpr auto kOfSelf = static_cast<std::size_t>(drafts::GuessSource::kSelf);
constexpr std::int64_t kLayers = 3;

class SharedSink final : public KeepingSinkBase {
 public:
  records::AppendResult append(const records::Record& record) override {
    const std::lock_guard lock(mutex_);
    return KeepingSinkBase::append(record);
  }

 private:
  std::mutex mutex_;
};

Options self_options(std::shared_ptr<drafts::LayerChoice> choice) {
  Options options = fake_options();
  options.drafts.how = {.method = drafts::Method::kSelf, .max_drafts = 3, .is_adaptive = false};
  options.drafts.layers = std::move(choice);
  return options;
}

std::shared_ptr<drafts::LayerChoice> known_choice() {
  return std::make_shared<drafts::LayerChoice>(drafts::LeftOutLayers{.layers = {1}});
}

void check_captions(const std::vector<records::Record>& records, int num_clips, int shift = 0) {
  REQUIRE(static_cast<int>(records.size()) == num_clips);
  for (const records::Record& record : records) {
    CHECK(record.caption == expected_caption(clip_number(record.video), shift));
    REQUIRE(record.speculation.has_value());
    for (const records::Speculation::Source& source : record.speculation->sources) {
      CHECK(source.name == "self");
    }
  }
}

TEST_SUITE("pipeline/self-draft") {
  TEST_CASE("captions are those without drafts, also with an adapter, and guesses are right") {
    constexpr int kNumClips = 60;
    for (const bool is_static : {false, true}) {
      for (const int max_num_seqs : {1, 16}) {
        for (const bool has_adapter : {false, true}) {
          CAPTURE(is_static);
          CAPTURE(max_num_seqs);
          FakeModel model(kLayers);
          Options options = self_options(known_choice());
          options.engine.batching =
              is_static ? engine::BatchMode::kStatic : engine::BatchMode::kContinuous;
          options.engine.max_num_seqs = max_num_seqs;
          if (has_adapter) {
            model.number_of_adapters = 1;
            options.adapters = {{.name = "news", .page_identity = {1, 2}}};
            options.prompts = {{.name = "", .text = "?", .adapter = "news"}};
          }
          KeepingSink sink;
          const Outcome outcome = run(model, clips(kNumClips), options, sink);
          check_captions(sink.kept, kNumClips, has_adapter ? kAdapterShift : 0);
          // Only guesses after the end of a caption are wrong.
          CHECK(outcome.drafts.accepted[kOfSelf] > outcome.drafts.computed[kOfSelf] / 2);
          CHECK(outcome.engine.accepted_tokens > 0);
          CHECK_FALSE(outcome.found_layers.has_value());
        }
      }
    }
  }

  // The captions of the fake model are too short to search by.
  TEST_CASE("replicas use layers that become known during the run") {
    constexpr int kNumClips = 120;
    std::vector<std::unique_ptr<FakeModel>> models;
    std::vector<Replica> replicas;
    for (int i = 0; i < 2; ++i) {
      models.push_back(std::make_unique<FakeModel>(kLayers));
      replicas.push_back({.model = models.back().get(),
                          .kv_cache_bytes = fake_options().engine.kv_cache_bytes,
                          .name = "device " + std::to_string(i)});
    }
    const auto choice = std::make_shared<drafts::LayerChoice>();
    // The first clip of any replica: one of them may have captioned the others' clips by the time
    // that another one begins.
    std::once_flag is_made;
    for (const auto& model : models) {
      model->on_encode = [&](int) {
        std::call_once(is_made, [&] { choice->make({.layers = {1}}); });
      };
    }
    SharedSink sink;
    const Outcome outcome = run(replicas, clips(kNumClips), self_options(choice), sink);
    check_captions(sink.kept, kNumClips);
    CHECK(outcome.drafts.accepted[kOfSelf] > 0);
    REQUIRE(outcome.found_layers.has_value());
    CHECK(outcome.found_layers->layers == std::vector<std::int32_t>{1});
  }
}

}  // namespace
}  // namespace caption::pipeline
