// Drafts of the engine's own decoder without some layers: outputs are those without drafts, in any
// schedule, and the layers that change least are found.
#include "engine/self_draft.h"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <random>
#include <vector>

#include "backend/thread_pool.h"
#include "drafts/drafter.h"
#include "tests/engine/fake_decoder.h"

namespace caption::engine {
namespace {

using Ids = std::vector<std::int32_t>;
using Layers = std::vector<std::int32_t>;

constexpr std::int64_t kLayers = 4;
constexpr auto kOfSelf = static_cast<std::size_t>(drafts::GuessSource::kSelf);

// The decoder has kLayers layers.
EngineOptions with_pages(std::int64_t num_pages, DType dtype = DType::kF32) {
  return options_with_pages(num_pages, dtype, kLayers);
}

std::shared_ptr<drafts::LayerChoice> choice_of(const Layers& left_out) {
  return std::make_shared<drafts::LayerChoice>(drafts::LeftOutLayers{.layers = left_out});
}

// An engine with self-drafts.
struct Speculating {
  Speculating(model::Decoder& decoder, Stream& stream, EngineOptions options,
              std::shared_ptr<drafts::LayerChoice> choice, bool is_adaptive = false)
      : draft(std::move(choice)),
        drafter({.method = drafts::Method::kSelf,
                 .max_drafts = options.max_drafts,
                 .is_adaptive = is_adaptive},
                nullptr, nullptr, &draft) {
    options.draft_source = &drafter;
    options.self_draft = &draft;
    engine = std::make_unique<TestedEngine>(decoder, stream, options);
  }

  SelfDraft draft;
  drafts::Drafter drafter;
  std::unique_ptr<TestedEngine> engine;
};

TEST_SUITE("engine/self-draft") {
  TEST_CASE("layers without effect: all guesses are right, and steps are saved") {
    ThreadPool pool(1);
    Stream stream(testing::tested_context(), pool);
    const bool is_slow = stream.device() == Device::kCuda;
    FakeDecoder decoder(4096, {}, kLayers);
    decoder.percent_changed = {100, 0, 0, 100};
    for (const std::int32_t max_num_seqs : {1, 16}) {
      for (const std::int32_t max_drafts : {4, 20}) {
        CAPTURE(max_num_seqs);
        EngineOptions options = with_pages(400);
        options.max_num_seqs = max_num_seqs;
        options.max_drafts = max_drafts;
        Speculating speculating(decoder, stream, options, choice_of({1, 2}));
        std::map<RequestId, Ids> expected;
        for (std::uint64_t seed = 0; seed < (is_slow ? 2 : 20); ++seed) {
          Request request = random_request(seed, is_slow ? 30 : 100);
          request.sampling.num_beams = 1;
          expected[speculating.engine->submit(request)] = expected_output(request);
        }
        std::int64_t num_tokens = 0;
        for (const Completion& completion : run_until_idle(*speculating.engine)) {
          CHECK(completion.output_ids == expected.at(completion.id));
          num_tokens += std::ssize(completion.output_ids);
        }
        const EngineStats stats = speculating.engine->stats();
        CHECK(stats.accepted_tokens > num_tokens / 2);
        // A draft that follows a stop or a loop is not accepted, and no other is refused: the
        // guesses are drawn as the tokens are, with the same random numbers.
        if (!is_slow && max_drafts == 4) {
          CHECK(speculating.drafter.counts().accepted[kOfSelf] * 10 >
                speculating.drafter.counts().computed[kOfSelf] * 9);
        }
      }
    }
  }

  TEST_CASE("any schedule gives every request the tokens it has without drafts") {
    ThreadPool pool(1);
    Stream stream(testing::tested_context(), pool);
    const bool is_slow = stream.device() == Device::kCuda;
    const std::size_t num_requests = is_slow ? 4 : 20;
    const int num_runs = is_slow ? 2 : 60;
    FakeDecoder whole(4096, {}, kLayers);
    whole.percent_changed = {100, 15, 40, 100};
    FakeDecoder windowed(4096, {7, 16, 3, 11}, kLayers);
    windowed.percent_changed = whole.percent_changed;
    std::vector<Request> requests;
    std::vector<Ids> expected;
    std::vector<Ids> expected_in_window;
    for (std::size_t i = 0; i < num_requests; ++i) {
      requests.push_back(random_request(i, is_slow ? 60 : 128));
      expected.push_back(expected_output(requests.back()));
      expected_in_window.push_back(expected_output(requests.back(), -1, 16));
    }
    std::mt19937_64 rng(5);
    const auto uniform = [&](int bound) {
      return static_cast<int>(rng() % static_cast<std::uint64_t>(bound));
    };
    std::int64_t num_accepted = 0;
    std::int64_t num_rejected = 0;
    std::int64_t num_preemptions = 0;
    for (int run = 0; run < num_runs; ++run) {
      CAPTURE(run);
      EngineOptions options =
          with_pages(8 + uniform(40), run % 5 == 4 ? DType::kBF16 : DType::kF32);
      options.batching = run % 3 == 0 ? BatchMode::kStatic : BatchMode::kContinuous;
      options.chunked_prefill = uniform(2) == 0;
      options.max_num_seqs = run % 4 == 0 ? 16 : 1 + uniform(10);
      options.max_num_batched_tokens = 4 + uniform(100);
      options.prefix_cache = uniform(2) == 0 ? PrefixCache::kOn : PrefixCache::kOff;
      options.max_drafts = run % 7 == 6 ? 32 : 1 + uniform(6);
      const bool has_window = run % 4 == 3;
      std::shared_ptr<drafts::LayerChoice> choice;  // leaves out a layer, or two, or is to be found
      if (run % 3 == 0) choice = choice_of({1});
      if (run % 3 == 1) choice = choice_of({1, 2});
      if (run % 3 == 2) choice = std::make_shared<drafts::LayerChoice>();
      Speculating speculating(has_window ? windowed : whole, stream, options, choice, run % 2 == 0);
      std::map<RequestId, std::size_t> submitted;
      std::vector<RequestId> cancelled;
      for (std::size_t i = 0; i < num_requests; ++i) {
        if (requests[i].sampling.num_beams >
            std::min(options.max_num_seqs, options.max_num_batched_tokens)) {
          continue;
        }
        const RequestId id = speculating.engine->submit(requests[i]);
        submitted[id] = i;
        if (uniform(10) == 0) cancelled.push_back(id);
      }
      std::vector<Completion> completions;
      for (int step = 0; !speculating.engine->idle(); ++step) {
        REQUIRE(step < 100'000);
        if (step == 5) {
          for (const RequestId id : cancelled) {
            if (speculating.engine->cancel(id)) submitted.erase(id);
          }
        }
        for (Completion& c : speculating.engine->step()) completions.push_back(std::move(c));
      }
      REQUIRE(completions.size() == submitted.size());
      for (const Completion& c : completions) {
        CHECK(c.output_ids == (has_window ? expected_in_window : expected)[submitted.at(c.id)]);
        num_preemptions += c.num_preemptions;
      }
      const EngineStats stats = speculating.engine->stats();
      num_accepted += stats.accepted_tokens;
      num_rejected += stats.draft_tokens - stats.accepted_tokens;
    }
    if (is_slow) return;
    CHECK(num_accepted > 500);
    CHECK(num_rejected > 500);
    CHECK(num_preemptions > 20);
  }

  TEST_CASE("the layer without effect is found, also one caption at a time") {
    ThreadPool pool(1);
    Stream stream(testing::tested_context(), pool);
    if (stream.device() == Device::kCuda) return;  // slow; the passes are those of the CPU
    for (const std::int32_t harmless : {1, 2}) {
      for (const std::int32_t max_num_seqs : {1, 4}) {
        CAPTURE(harmless);
        CAPTURE(max_num_seqs);
        FakeDecoder decoder(4096, {}, kLayers);
        decoder.percent_changed = {100, 60, 60, 100};
        decoder.percent_changed[static_cast<std::size_t>(harmless)] = 0;
        int num_made = 0;
        drafts::LeftOutLayers made;
        const auto choice = std::make_shared<drafts::LayerChoice>(
            std::nullopt, [&](const drafts::LeftOutLayers& layers) {
              ++num_made;
              made = layers;
            });
        EngineOptions options = with_pages(400);
        options.max_num_seqs = max_num_seqs;
        options.max_drafts = 8;
        Speculating speculating(decoder, stream, options, choice);
        REQUIRE(speculating.draft.unfinished_search().has_value());
        CHECK(speculating.draft.unfinished_search()->num_texts == 0);
        std::map<RequestId, Ids> expected;
        for (std::uint64_t seed = 0; seed < 40; ++seed) {
          const Request request = random_request(seed, 100);
          if (request.sampling.num_beams > max_num_seqs) continue;
          expected[speculating.engine->submit(request)] = expected_output(request);
        }
        for (const Completion& completion : run_until_idle(*speculating.engine)) {
          CHECK(completion.output_ids == expected.at(completion.id));
        }
        CHECK(num_made == 1);
        CHECK_FALSE(speculating.draft.unfinished_search().has_value());
        CHECK(made.layers == Layers{harmless});
        CHECK(made.cost == doctest::Approx(4.0 / 5.0));
        CHECK(made.acceptance > 0.9);
        CHECK(speculating.draft.relative_cost() == doctest::Approx(4.0 / 5.0));
      }
    }
  }

  TEST_CASE("where no layers can be spared, nothing is guessed") {
    ThreadPool pool(1);
    Stream stream(testing::tested_context(), pool);
    if (stream.device() == Device::kCuda) return;
    FakeDecoder decoder(4096, {}, kLayers);
    decoder.percent_changed = {100, 95, 95, 100};
    FakeDecoder shallow;
    shallow.percent_changed = {100, 100};
    for (FakeDecoder* const target : {&decoder, &shallow}) {
      const auto choice = std::make_shared<drafts::LayerChoice>();
      EngineOptions options = options_with_pages(400, DType::kF32, target->spec().num_layers);
      options.max_num_seqs = 2;
      options.max_drafts = 8;
      Speculating speculating(*target, stream, options, choice);
      for (std::uint64_t seed = 0; seed < 30; ++seed) {
        Request request = random_request(seed, 100);
        request.sampling.num_beams = 1;
        speculating.engine->submit(request);
      }
      run_until_idle(*speculating.engine);
      REQUIRE(choice->get().has_value());
      CHECK_FALSE(choice->get()->pays());
      CHECK(speculating.engine->stats().draft_tokens == 0);
    }
  }

  TEST_CASE("what cannot be is refused with a sentence") {
    ThreadPool pool(1);
    Stream stream(testing::tested_context(), pool);
    FakeDecoder decoder(4096, {}, kLayers);
    decoder.percent_changed = {0, 0, 0, 0};
    EngineOptions options = with_pages(40);
    options.max_drafts = 2;
    CHECK_THROWS_WITH(Speculating(decoder, stream, options, choice_of({1, 7})),
                      doctest::Contains("layer 7 of 4 cannot be left out"));
    if (stream.device() == Device::kCpu) {
      options.compression.mode = CompressionMode::kTopkMerge;
      CHECK_THROWS_WITH(Speculating(decoder, stream, options, choice_of({1})),
                        doctest::Contains("compressed attention"));
    }
    struct WholeDecoder final : FakeDecoder {
      using FakeDecoder::FakeDecoder;
      std::int64_t step_weight_bytes(std::span<const std::int32_t>) const override { return 0; }
    };
    WholeDecoder never(4096, {}, kLayers);
    options.compression = {};
    CHECK_THROWS_WITH(Speculating(never, stream, options, choice_of({1})),
                      doctest::Contains("cannot leave out layers"));
  }
}

}  // namespace
}  // namespace caption::engine
