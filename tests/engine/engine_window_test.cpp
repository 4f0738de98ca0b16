// Requests of a model with sliding windows: their tokens depend on the request alone, and pages
// that no later token sees are released.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "backend/thread_pool.h"
#include "base/error.h"
#include "engine/engine.h"
#include "tests/engine/fake_decoder.h"
#include "tests/support/oracle_drafts.h"

namespace caption::engine {
namespace {

Request text_request(std::int32_t num_prompt, std::int32_t max_new_tokens) {
  Request request;
  for (std::int32_t i = 0; i < num_prompt; ++i) request.prompt_ids.push_back(i % 50);
  request.sampling.max_new_tokens = max_new_tokens;
  request.sampling.temperature = 0.8;  // or the loop detector could end the output
  return request;
}

EngineOptions random_options(std::mt19937_64& rng) {
  const auto uniform = [&](int bound) {
    return static_cast<int>(rng() % static_cast<std::uint64_t>(bound));
  };
  EngineOptions options = options_with_pages(8 + (uniform(2) == 0 ? uniform(8) : uniform(60)),
                                             uniform(2) == 0 ? DType::kF32 : DType::kBF16);
  options.batching = uniform(3) == 0 ? BatchMode::kStatic : BatchMode::kContinuous;
  options.chunked_prefill = uniform(3) != 0;
  options.max_num_seqs = 4 + uniform(7);
  options.max_num_batched_tokens = 4 + (uniform(2) == 0 ? uniform(12) : uniform(200));
  options.prefix_cache = uniform(2) == 0 ? PrefixCache::kOn : PrefixCache::kOff;
  return options;
}

// Counts the entries of released pages in the steps' block tables.
std::int64_t count_released(const testing::BatchArrays& batch, std::int64_t page_tokens) {
  std::int64_t count = 0;
  for (std::size_t s = 0; s < batch.context_lens.size(); ++s) {
    const auto begin =
        batch.block_tables.begin() +
        static_cast<std::ptrdiff_t>(s) * static_cast<std::ptrdiff_t>(batch.max_pages);
    const std::int64_t pages = (batch.context_lens[s] + page_tokens - 1) / page_tokens;
    count += std::count(begin, begin + pages, -1);
  }
  return count;
}

TEST_SUITE("engine/window") {
  TEST_CASE("any schedule gives every request the tokens it has alone, within its windows") {
    constexpr std::int64_t kMaxTokens = 8 * 16;
    constexpr std::int64_t kPageTokens = 16;
    ThreadPool pool(1);
    Stream stream(testing::tested_context(), pool);
    std::mt19937_64 rng(7);
    std::int64_t num_preemptions = 0;
    std::int64_t num_hit_tokens = 0;
    std::int64_t num_accepted = 0;
    // Both layers see the last 21 tokens or fewer; the last tokens only; or one sees all of them.
    const std::vector<std::int64_t> kWindows[] = {{21, 9}, {1, 1}, {40, 0}};
    for (const std::vector<std::int64_t>& windows : kWindows) {
      FakeDecoder decoder(4096, windows);
      const std::int64_t window = decoder.spec().window_of_all_layers();
      CAPTURE(window);
      std::vector<Request> requests;
      std::vector<std::vector<std::int32_t>> expected;
      testing::OracleDrafts drafts(kFakeVocab);
      for (std::uint64_t i = 0; i < 16; ++i) {
        requests.push_back(i % 2 == 0 ? random_request(i, kMaxTokens)
                                      : family_request(i % 3, i, kMaxTokens));
        expected.push_back(expected_output(requests.back(), -1, window));
        drafts.add(requests.back().prompt_ids, expected.back());
      }
      std::int64_t num_released = 0;
      decoder.on_forward = [&](const testing::BatchArrays& batch) {
        num_released += count_released(batch, kPageTokens);
      };
      for (int run = 0; run < 60; ++run) {
        CAPTURE(run);
        EngineOptions options = random_options(rng);
        if (run % 2 == 1) {
          options.draft_source = &drafts;
          options.max_drafts = 1 + run % 20;
          drafts.longest = 5 + run % 20;
        }
        TestedEngine engine(decoder, stream, options);
        for (const Request& request : requests) engine.submit(request);
        const std::vector<Completion> completions = run_until_idle(engine);
        REQUIRE(completions.size() == requests.size());
        for (const Completion& c : completions) {
          CHECK(c.output_ids == expected[static_cast<std::size_t>(c.id)]);
          num_preemptions += c.num_preemptions;
        }
        num_hit_tokens += engine.stats().prefix_hit_tokens;
        num_accepted += engine.stats().accepted_tokens;
      }
      CHECK((num_released > 1000) == (window > 0));
    }
    // The requests of the emulated GPU have no beams, which take pages, too.
    CHECK(num_preemptions > (stream.device() == Device::kCuda ? 20 : 50));
    CHECK(num_hit_tokens > 1000);
    CHECK(num_accepted > 1000);
  }

  TEST_CASE("a long output holds the pages of its window only") {
    ThreadPool pool(1);
    Stream stream(testing::tested_context(), pool);
    FakeDecoder decoder(4096, {30, 12});
    EngineOptions options = options_with_pages(40);
    options.max_num_batched_tokens = 64;
    TestedEngine engine(decoder, stream, options);
    const Request request = text_request(200, 300);
    engine.submit(request);
    CHECK(run_until_idle(engine).at(0).output_ids == expected_output(request, -1, 30));
    // The pages hold a chunk of 64 tokens and the 29 before it.
    CHECK(engine.stats().pages_peak <= 7);
    CHECK(engine.stats().mean_pages_used < 3.5);

    FakeDecoder full(4096, {30, 0});
    TestedEngine keeps(full, stream, options);
    keeps.submit(request);
    CHECK(run_until_idle(keeps).at(0).output_ids == expected_output(request));
    CHECK(keeps.stats().pages_peak == 32);
  }

  TEST_CASE("a step after which no page is in use leaves the mean waste a number") {
    ThreadPool pool(1);
    Stream stream(testing::tested_context(), pool);
    FakeDecoder decoder(4096, {1, 1});
    TestedEngine engine(decoder, stream, options_with_pages(8));
    engine.submit(text_request(16, 2));  // later tokens see none of the prompt's only page
    CHECK(run_until_idle(engine).size() == 1);
    // The second step leaves one token in a page of 16.
    CHECK(engine.stats().mean_page_waste == doctest::Approx(15.0 / 16 / 2));
  }

  TEST_CASE("released pages of a prompt stay in the prefix cache") {
    ThreadPool pool(1);
    Stream stream(testing::tested_context(), pool);
    FakeDecoder decoder(4096, {20, 20});
    EngineOptions options = options_with_pages(40);
    options.prefix_cache = PrefixCache::kOn;
    options.max_num_batched_tokens = 64;
    TestedEngine engine(decoder, stream, options);
    const Request request = text_request(200, 60);
    engine.submit(request);
    const Completion first = run_until_idle(engine).at(0);
    engine.submit(request);
    const Completion second = run_until_idle(engine).at(0);
    CHECK(first.output_ids == expected_output(request, -1, 20));
    CHECK(second.output_ids == first.output_ids);
    CHECK(second.cached_tokens == 192);
    CHECK(engine.stats().pages_peak <= 12);  // taking a prefix names all of its pages
  }

  TEST_CASE("compressed attention and a window cannot be combined") {
    ThreadPool pool(1);
    Stream stream(testing::tested_context(), pool);
    FakeDecoder decoder(4096, {0, 12});
    EngineOptions options = options_with_pages(40);
    options.compression.mode = CompressionMode::kSqueezed;
    try {
      TestedEngine engine(decoder, stream, options);
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kUnavailable);
      CHECK(std::string(error.what()) ==
            "engine: attention squeezed cannot be combined with the model's sliding_window; use "
            "--attention full");
    }
    options.compression.mode = CompressionMode::kTopkMerge;
    CHECK_THROWS_WITH_AS(TestedEngine(decoder, stream, options),
                         doctest::Contains("topk-merge cannot be combined"), Error);
  }
}

}  // namespace
}  // namespace caption::engine
