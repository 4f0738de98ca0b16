// Requests that read and change the logits of their tokens before one is chosen.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "backend/thread_pool.h"
#include "base/error.h"
#include "engine/engine.h"
#include "tests/engine/fake_decoder.h"

namespace caption::engine {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

struct Room {
  ThreadPool pool{1};
  Stream stream{testing::tested_context(), pool};
  FakeDecoder decoder;
};

Request text_request(std::vector<std::int32_t> prompt_ids, std::int32_t max_new_tokens) {
  Request request;
  request.prompt_ids = std::move(prompt_ids);
  request.sampling.max_new_tokens = max_new_tokens;
  return request;
}

// Makes the request choose these tokens and stores the logits that it saw.
void force(Request& request, std::vector<std::int32_t> tokens,
           std::vector<std::vector<float>>& seen) {
  request.process_logits = [tokens = std::move(tokens), &seen](std::span<float> logits) {
    const std::int32_t token = tokens.at(seen.size());
    seen.emplace_back(logits.begin(), logits.end());
    for (std::int32_t id = 0; id < std::ssize(logits); ++id) {
      if (id != token) logits[static_cast<std::size_t>(id)] = kNever;
    }
  };
}

TEST_SUITE("engine/process_logits") {
  TEST_CASE("a request that forces its own tokens sees the logits that it would have seen") {
    Room room;
    const Request plain = text_request({4, 5, 6}, 9);
    const std::vector<std::int32_t> tokens = expected_output(plain);
    TestedEngine engine(room.decoder, room.stream, options_with_pages(20));
    Request watched = plain;
    std::vector<std::vector<float>> rows;
    watched.process_logits = [&](std::span<float> logits) {
      rows.emplace_back(logits.begin(), logits.end());
    };
    Request forced = plain;
    std::vector<std::vector<float>> forced_rows;
    force(forced, tokens, forced_rows);
    engine.submit(watched);
    engine.submit(forced);
    for (const Completion& completion : run_until_idle(engine)) {
      CHECK(completion.output_ids == tokens);
    }
    REQUIRE(rows.size() == tokens.size());
    CHECK(rows[0].size() == static_cast<std::size_t>(kFakeVocab));
    CHECK(forced_rows == rows);
  }

  TEST_CASE("forced tokens come out, whatever the logits are, once each under preemption") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(4));
    const std::vector<std::vector<std::int32_t>> prompts = {{1, 2, 3}, {4, 5, 6}};
    std::vector<std::vector<std::int32_t>> wanted;
    std::vector<std::vector<std::vector<float>>> rows(prompts.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      Request request = text_request(prompts[i], 50);
      request.sampling.temperature = i == 0 ? 0.0 : 1.0;
      std::vector<std::int32_t> tokens(50);
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        tokens[t] = static_cast<std::int32_t>((t * t + 7 * i) % kFakeVocab);
      }
      force(request, tokens, rows[i]);
      wanted.push_back(tokens);
      engine.submit(std::move(request));
    }
    std::int64_t num_preemptions = 0;
    for (const Completion& completion : run_until_idle(engine)) {
      num_preemptions += completion.num_preemptions;
      CHECK(completion.output_ids == wanted.at(static_cast<std::size_t>(completion.id)));
    }
    CHECK(num_preemptions > 0);
    CHECK(rows[0].size() == 50);
    CHECK(rows[1].size() == 50);
  }

  TEST_CASE("log-probabilities stay those of the model") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(20));
    Request plain = text_request({9, 8}, 1);
    plain.sampling.num_logprobs = 1;
    Request forced = plain;
    std::vector<std::vector<float>> rows;
    force(forced, expected_output(plain), rows);
    engine.submit(plain);
    engine.submit(forced);
    const std::vector<Completion> completions = run_until_idle(engine);
    REQUIRE(completions.size() == 2);
    CHECK(completions[0].logprobs.at(0).chosen.logprob < 0);
    CHECK(completions[0].logprobs[0].chosen.logprob ==
          completions[1].logprobs.at(0).chosen.logprob);
  }

  TEST_CASE("an error ends its request alone, and beams are refused") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(20));
    Request failing = text_request({1, 2}, 5);
    failing.process_logits = [](std::span<float>) { throw Error(ErrorCode::kIo, "a full disk"); };
    const Request other = text_request({3, 4}, 5);
    engine.submit(failing);
    engine.submit(other);
    int num_failed = 0;
    for (const Completion& completion : run_until_idle(engine)) {
      if (!completion.error.has_value()) {
        CHECK(completion.output_ids == expected_output(other));
        continue;
      }
      ++num_failed;
      CHECK(completion.error->code() == ErrorCode::kIo);
      CHECK(completion.finish_reason == FinishReason::kFailed);
    }
    CHECK(num_failed == 1);
    failing.sampling.num_beams = 2;
    CHECK_THROWS_WITH_AS(engine.submit(failing), doctest::Contains("logits of beams"), Error);
  }
}

}  // namespace
}  // namespace caption::engine
