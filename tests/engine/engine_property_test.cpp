// A request's tokens depend only on the request: they are the same alone and with any other
// requests, mode, chunking, page budget, order and priority, with and without prefix hits and
// drafts. Pages and requests are conserved throughout.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "backend/thread_pool.h"
#include "engine/engine.h"
#include "tests/engine/fake_decoder.h"
#include "tests/support/oracle_drafts.h"

namespace caption::engine {
namespace {

struct Schedule {
  EngineOptions options;
  int num_pages = 0;
  std::vector<std::size_t> order;    // order of submission
  std::vector<std::size_t> at_step;  // step of submission, by place in the order; ascending
};

Schedule random_schedule(std::mt19937_64& rng, const std::vector<Request>& requests) {
  const auto uniform = [&](int bound) {
    return static_cast<int>(rng() % static_cast<std::uint64_t>(bound));
  };
  Schedule schedule;
  schedule.num_pages = 8 + (uniform(2) == 0 ? uniform(8) : uniform(100));
  schedule.options =
      options_with_pages(schedule.num_pages, uniform(2) == 0 ? DType::kF32 : DType::kBF16);
  schedule.options.batching = uniform(3) == 0 ? BatchMode::kStatic : BatchMode::kContinuous;
  schedule.options.chunked_prefill = uniform(3) != 0;
  schedule.options.max_num_seqs = 1 + uniform(10);
  schedule.options.max_num_batched_tokens = 1 + (uniform(2) == 0 ? uniform(12) : uniform(200));
  schedule.options.prefix_cache = uniform(2) == 0 ? PrefixCache::kOn : PrefixCache::kOff;
  if (schedule.options.prefix_cache == PrefixCache::kOn && uniform(2) == 0) {
    schedule.options.host_pages_bytes =
        (1 + uniform(30)) * schedule.options.kv_cache_bytes / schedule.num_pages;
  }
  const std::int32_t most_beams =
      std::min(schedule.options.max_num_seqs, schedule.options.max_num_batched_tokens);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].sampling.num_beams <= most_beams) schedule.order.push_back(i);
  }
  std::shuffle(schedule.order.begin(), schedule.order.end(), rng);
  for (std::size_t i = 0; i < schedule.order.size(); ++i) {
    schedule.at_step.push_back(uniform(2) == 0 ? 0 : static_cast<std::size_t>(uniform(60)));
  }
  std::sort(schedule.at_step.begin(), schedule.at_step.end());
  return schedule;
}

TEST_SUITE("engine/properties") {
  TEST_CASE("any schedule gives every request the tokens it has alone") {
    constexpr std::size_t kNumRequests = 24;
    constexpr std::int64_t kMaxTokens = 8 * 16;  // the smallest page budget below
    ThreadPool pool(1);
    Stream stream(testing::tested_context(), pool);
    FakeDecoder decoder;
    std::vector<Request> requests;
    std::vector<std::vector<std::int32_t>> expected;
    for (std::size_t i = 0; i < kNumRequests; ++i) {
      requests.push_back(i % 2 == 0 ? random_request(i, kMaxTokens)
                                    : family_request(i % 3, i, kMaxTokens));
      expected.push_back(expected_output(requests.back()));
    }
    std::mt19937_64 rng(42);
    testing::OracleDrafts drafts(kFakeVocab);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      drafts.add(requests[i].prompt_ids, expected[i]);
    }
    std::int64_t num_accepted = 0;
    std::int64_t num_rejected = 0;
    std::int64_t num_preemptions = 0;
    std::int64_t num_permuted = 0;
    std::int64_t num_hit_tokens = 0;
    std::int64_t num_host_hit_tokens = 0;
    for (int run = 0; run < 400; ++run) {
      CAPTURE(run);
      Schedule schedule = random_schedule(rng, requests);
      if (run % 2 == 1) {
        schedule.options.draft_source = &drafts;
        schedule.options.max_drafts = 1 + run % 5 + (run % 20 == 1 ? 30 : 0);
        drafts.longest = run % 20 == 1 ? 40 : 7;
        schedule.options.max_copied_tokens = run % 4 == 1 ? 0 : 1 + run % 30;
        drafts.longest_copy = 40;
        if (run % 8 == 7) schedule.options.max_drafts = 0;
      }
      std::int64_t num_passed = 0;
      decoder.on_forward = [&](const testing::BatchArrays& batch) {
        const auto num_sequences = std::ssize(batch.context_lens);
        const bool fits = std::ssize(batch.tokens) <= schedule.options.max_num_batched_tokens ||
                          (!schedule.options.chunked_prefill && num_sequences == 1);
        if (!fits || num_sequences > schedule.options.max_num_seqs) ++num_passed;
      };
      TestedEngine engine(decoder, stream, schedule.options);
      CHECK(engine.stats().pages_total == schedule.num_pages);
      std::map<RequestId, std::size_t> submitted;
      std::vector<Completion> completions;
      std::size_t next = 0;
      for (std::size_t step = 0; next < schedule.order.size() || !engine.idle(); ++step) {
        REQUIRE(step < 100'000);
        while (next < schedule.order.size() && schedule.at_step[next] <= step) {
          const std::size_t i = schedule.order[next++];
          submitted[engine.submit(requests[i])] = i;
        }
        for (Completion& c : engine.step()) completions.push_back(std::move(c));
        CHECK(engine.num_unfinished() == std::ssize(submitted) - std::ssize(completions));
      }
      CHECK(num_passed == 0);
      REQUIRE(completions.size() == schedule.order.size());
      for (const Completion& c : completions) {
        const std::size_t i = submitted.at(c.id);
        CAPTURE(i);
        CHECK(c.output_ids == expected[i]);
        CHECK(c.prompt_tokens == std::ssize(requests[i].prompt_ids));
        CHECK(c.vision_tokens == std::ssize(requests[i].vision_positions));
        num_preemptions += c.num_preemptions;
      }
      num_accepted += engine.stats().accepted_tokens;
      num_rejected += engine.stats().draft_tokens - engine.stats().accepted_tokens;
      num_hit_tokens += engine.stats().prefix_hit_tokens;
      num_host_hit_tokens += engine.stats().host_hit_tokens;
      num_permuted += std::is_sorted(completions.begin(), completions.end(),
                                     [](const auto& a, const auto& b) { return a.id < b.id; })
                          ? 0
                          : 1;
    }
    CHECK(num_accepted > 10'000);      // drafts were right
    CHECK(num_rejected > 10'000);      // and wrong
    CHECK(num_preemptions > 100);      // pages did become scarce
    CHECK(num_permuted > 350);         // requests finished in another order
    CHECK(num_hit_tokens > 10'000);    // prefixes were shared
    CHECK(num_host_hit_tokens > 500);  // also through the host's memory
  }

  TEST_CASE("right drafts save steps, and drafts change neither tokens nor log-probabilities") {
    ThreadPool pool(1);
    Stream stream(testing::tested_context(), pool);
    FakeDecoder decoder;
    Request request;
    request.prompt_ids = {4, 5, 6};
    request.sampling.max_new_tokens = 40;
    request.sampling.temperature = 0.8;
    request.sampling.num_logprobs = 2;
    const std::vector<std::int32_t> expected = expected_output(request);
    testing::OracleDrafts drafts(kFakeVocab + 3);  // a few ids are not in the vocabulary
    drafts.add(request.prompt_ids, expected);
    Completion completions[2];
    std::int64_t steps[2];
    for (const int with_drafts : {0, 1}) {
      EngineOptions options = options_with_pages(10);
      if (with_drafts == 1) {
        options.draft_source = &drafts;
        options.max_drafts = 7;
      }
      TestedEngine engine(decoder, stream, options);
      engine.submit(request);
      completions[with_drafts] = run_until_idle(engine).at(0);
      steps[with_drafts] = engine.stats().steps;
      CHECK(completions[with_drafts].output_ids == expected);
      CHECK(engine.stats().decode_tokens == std::ssize(expected) - 1);
    }
    CHECK(steps[1] < steps[0] / 2);
    REQUIRE(completions[1].logprobs.size() == completions[0].logprobs.size());
    for (std::size_t i = 0; i < completions[0].logprobs.size(); ++i) {
      CHECK(completions[1].logprobs[i].chosen.id == completions[0].logprobs[i].chosen.id);
      CHECK(completions[1].logprobs[i].chosen.logprob == completions[0].logprobs[i].chosen.logprob);
    }
  }

  TEST_CASE("ten thousand queued requests finish, each with its own tokens") {
    ThreadPool pool(1);
    Stream stream(testing::tested_context(), pool);
    FakeDecoder decoder;
    EngineOptions options = options_with_pages(40);
    options.max_num_batched_tokens = 64;
    TestedEngine engine(decoder, stream, options);
    std::map<RequestId, std::uint64_t> submitted;
    for (std::uint64_t i = 0; i < 10'000; ++i) {
      submitted[engine.submit(random_request(i, 40))] = i;
    }
    std::int64_t num_wrong = 0;
    std::int64_t num_finished = 0;
    for (const Completion& c : run_until_idle(engine)) {
      ++num_finished;
      if (c.output_ids != expected_output(random_request(submitted.at(c.id), 40))) ++num_wrong;
    }
    CHECK(num_finished == 10'000);
    CHECK(num_wrong == 0);
  }
}

}  // namespace
}  // namespace caption::engine
