// Drafts of a second decoder: outputs are those without it, in any schedule and with scarce pages,
// and a decoder that equals the target is right always.
#include "engine/draft_decoder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/thread_pool.h"
#include "drafts/drafter.h"
#include "tensor/copy.h"
#include "tests/engine/fake_decoder.h"
#include "tests/support/listed_tokens.h"

namespace caption::engine {
namespace {

using Ids = std::vector<std::int32_t>;

DraftDecoderOptions draft_options(const EngineOptions& engine, std::int64_t num_pages) {
  const EngineOptions pages = options_with_pages(num_pages, engine.kv_dtype);
  return {.max_num_seqs = engine.max_num_seqs,
          .max_num_batched_tokens = engine.max_num_batched_tokens,
          .kv_cache_bytes = pages.kv_cache_bytes,
          .kv_dtype = engine.kv_dtype,
          .relative_cost = 0.01};
}

Request on_device(Stream& stream, Request request) {
  const auto place = [&](std::shared_ptr<const Tensor>& tokens) {
    if (tokens == nullptr || tokens->device() == stream.device()) return;
    tokens = std::make_shared<const Tensor>(copy_to(stream, stream.device(), tokens->view()));
  };
  place(request.vision);
  for (SharedVision& shared : request.leading_vision) place(shared.tokens);
  return request;
}

// The match of a vocabulary of two letters a token with one that has them in another order and
// lacks some, which it writes with two tokens, and a few of which it cannot write.
text::VocabularyMatch another_vocabulary() {
  const auto letter = [](std::int32_t i) { return std::string(1, static_cast<char>('a' + i)); };
  constexpr std::int32_t kLetters = 16;
  constexpr std::int32_t kLacked = 14;  // "aa" to "an"
  constexpr std::int32_t kAlone = 12;   // letters that are tokens: "am" and "an" cannot be written
  static_assert(kFakeVocab <= kLetters * kLetters);
  std::vector<std::string> tokens;
  for (std::int32_t id = 0; id < kFakeVocab; ++id) {
    tokens.push_back(letter(id / kLetters) + letter(id % kLetters));
  }
  std::vector<std::string> others(tokens.rbegin(), tokens.rend() - kLacked);
  for (std::int32_t i = 0; i < kAlone; ++i) others.push_back(letter(i));
  return text::match_vocabularies(testing::ListedTokens(tokens), {}, testing::ListedTokens(others),
                                  {});
}

// The request's text without its vision tokens.
Request text_of(const Request& request) {
  Request text;
  for (std::size_t i = 0; i < request.prompt_ids.size(); ++i) {
    const auto position = static_cast<std::int32_t>(i);
    if (!std::binary_search(request.vision_positions.begin(), request.vision_positions.end(),
                            position)) {
      text.prompt_ids.push_back(request.prompt_ids[i]);
    }
  }
  if (text.prompt_ids.empty()) text.prompt_ids.push_back(1);
  return text;
}

// An engine with the drafts of a model.
struct Speculating {
  Speculating(model::Decoder& target, model::Decoder& draft, Stream& the_stream,
              EngineOptions options, std::int64_t num_draft_pages, bool is_adaptive,
              const text::VocabularyMatch& vocabulary = text::VocabularyMatch::identity(kFakeVocab))
      : stream(the_stream),
        decoder(draft, stream, draft_options(options, num_draft_pages), vocabulary),
        drafter({.method = drafts::Method::kModel,
                 .max_drafts = options.max_drafts,
                 .is_adaptive = is_adaptive},
                nullptr, nullptr, &decoder) {
    options.draft_source = &drafter;
    engine = std::make_unique<TestedEngine>(target, stream, options);
  }

  RequestId submit(const Request& request, const Request& prompt) {
    const RequestId id = engine->submit(request);
    decoder.begin(static_cast<std::int64_t>(id), on_device(stream, prompt));
    return id;
  }
  double acceptance() const {
    const auto source = static_cast<std::size_t>(drafts::GuessSource::kModel);
    return static_cast<double>(drafter.counts().accepted[source]) /
           static_cast<double>(drafter.counts().computed[source]);
  }

  Stream& stream;
  DraftDecoder decoder;
  drafts::Drafter drafter;
  std::unique_ptr<TestedEngine> engine;
};

TEST_SUITE("engine/draft decoder") {
  TEST_CASE("a decoder that equals the target is right always, and saves its steps") {
    ThreadPool pool(1);
    Stream stream(testing::tested_context(), pool);
    FakeDecoder target;
    FakeDecoder draft;
    for (const std::int32_t max_num_seqs : {1, 16}) {
      EngineOptions options = options_with_pages(400);
      options.max_num_seqs = max_num_seqs;
      options.max_drafts = 4;
      Speculating speculating(target, draft, stream, options, 400, false);
      std::map<RequestId, Ids> expected;
      // The emulated GPU takes up to 0.1 s to choose a token.
      const bool is_slow = stream.device() == Device::kCuda;
      for (std::uint64_t seed = 0; seed < (is_slow ? 2 : 20); ++seed) {
        Request request = random_request(seed, is_slow ? 30 : 100);
        const std::int32_t length = request.sampling.max_new_tokens;
        request.sampling = {.max_new_tokens = length};
        expected[speculating.submit(request, request)] = expected_output(request);
      }
      std::int64_t num_tokens = 0;
      for (const Completion& completion : run_until_idle(*speculating.engine)) {
        CHECK(completion.output_ids == expected.at(completion.id));
        num_tokens += std::ssize(completion.output_ids);
      }
      // A loop or the limit may end an output before its last drafts.
      const EngineStats stats = speculating.engine->stats();
      CHECK(stats.accepted_tokens > num_tokens / 2);
      if (!is_slow) CHECK(speculating.acceptance() > 0.95);
      CHECK(speculating.decoder.num_used_pages() == 0);
    }
  }

  TEST_CASE("any schedule gives every request the tokens it has without drafts") {
    ThreadPool pool(1);
    Stream stream(testing::tested_context(), pool);
    const bool is_slow = stream.device() == Device::kCuda;
    const std::size_t num_requests = is_slow ? 4 : 20;
    const int num_runs = is_slow ? 2 : 60;
    FakeDecoder target;
    FakeDecoder equal;
    FakeDecoder other(4096, {7, 3});  // sees less, so that it is often wrong
    FakeDecoder few_positions(60);
    std::vector<Request> requests;
    std::vector<Ids> expected;
    for (std::size_t i = 0; i < num_requests; ++i) {
      requests.push_back(random_request(i, is_slow ? 60 : 128));
      expected.push_back(expected_output(requests.back()));
    }
    std::mt19937_64 rng(5);
    const auto uniform = [&](int bound) {
      return static_cast<int>(rng() % static_cast<std::uint64_t>(bound));
    };
    std::int64_t num_accepted = 0;
    std::int64_t num_rejected = 0;
    std::int64_t num_preemptions = 0;
    std::int64_t num_full = 0;
    for (int run = 0; run < num_runs; ++run) {
      CAPTURE(run);
      EngineOptions options = options_with_pages(8 + uniform(40));
      options.batching = run % 3 == 0 ? BatchMode::kStatic : BatchMode::kContinuous;
      options.chunked_prefill = uniform(2) == 0;
      options.max_num_seqs = run % 4 == 0 ? 16 : 1 + uniform(10);
      options.max_num_batched_tokens = 4 + uniform(100);
      options.prefix_cache = uniform(2) == 0 ? PrefixCache::kOn : PrefixCache::kOff;
      options.max_drafts = 1 + uniform(6);
      FakeDecoder& draft = run % 3 == 0 ? equal : run % 3 == 1 ? other : few_positions;
      const std::int64_t num_draft_pages = 2 + uniform(30);
      const auto vocabulary =
          run % 5 == 4 ? another_vocabulary() : text::VocabularyMatch::identity(kFakeVocab);
      Speculating speculating(target, draft, stream, options, num_draft_pages, run % 2 == 0,
                              vocabulary);
      std::map<RequestId, std::size_t> submitted;
      std::vector<RequestId> cancelled;
      for (std::size_t i = 0; i < num_requests; ++i) {
        const Request& request = requests[i];
        if (request.sampling.num_beams >
            std::min(options.max_num_seqs, options.max_num_batched_tokens)) {
          continue;
        }
        const bool has_prompt = uniform(8) != 0;
        const RequestId id =
            has_prompt ? speculating.submit(request, uniform(2) == 0 ? request : text_of(request))
                       : speculating.engine->submit(request);
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
        if (speculating.decoder.num_used_pages() == speculating.decoder.num_pages()) ++num_full;
      }
      REQUIRE(completions.size() == submitted.size());
      for (const Completion& c : completions) {
        CHECK(c.output_ids == expected[submitted.at(c.id)]);
        num_preemptions += c.num_preemptions;
      }
      CHECK(speculating.decoder.num_used_pages() == 0);
      const EngineStats stats = speculating.engine->stats();
      num_accepted += stats.accepted_tokens;
      num_rejected += stats.draft_tokens - stats.accepted_tokens;
    }
    if (is_slow) return;
    CHECK(num_accepted > 500);
    CHECK(num_rejected > 500);
    CHECK(num_preemptions > 20);
    CHECK(num_full > 50);  // pages of the draft decoder became scarce
  }
}

}  // namespace
}  // namespace caption::engine
