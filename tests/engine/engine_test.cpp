// The engine as its user sees it: completions, refusals, cancellation, failure of one request,
// counters.
#include "engine/engine.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "backend/thread_pool.h"
#include "base/error.h"
#include "tests/engine/fake_decoder.h"

namespace caption::engine {
namespace {

Request text_request(std::vector<std::int32_t> prompt_ids, std::int32_t max_new_tokens) {
  Request request;
  request.prompt_ids = std::move(prompt_ids);
  request.sampling.max_new_tokens = max_new_tokens;
  return request;
}

struct Room {
  ThreadPool pool{1};
  Stream stream{testing::tested_context(), pool};
  FakeDecoder decoder;
};

ErrorCode code_of(const std::function<void()>& call, std::string* message = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.code();
  }
  FAIL("nothing was thrown");
  return ErrorCode::kInternal;
}

TEST_SUITE("engine/engine") {
  TEST_CASE("runs one request to its limit") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(10));
    CHECK(engine.idle());
    CHECK(engine.step().empty());
    const Request request = text_request({4, 5, 6}, 7);
    const RequestId id = engine.submit(request);
    const std::vector<Completion> completions = run_until_idle(engine);
    REQUIRE(completions.size() == 1);
    CHECK(completions[0].id == id);
    CHECK(completions[0].output_ids == expected_output(request));
    CHECK(completions[0].output_ids.size() == 7);
    CHECK(completions[0].finish_reason == FinishReason::kLength);
    CHECK(completions[0].total_us >= completions[0].first_token_us);
    CHECK_FALSE(completions[0].error.has_value());
  }

  TEST_CASE("ends at a stop id, which is part of the output") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(10));
    Request request = text_request({4, 5, 6}, 7);
    request.sampling.stop_ids = {60, expected_output(request)[3]};
    engine.submit(request);
    const Completion completion = run_until_idle(engine).at(0);
    CHECK(completion.finish_reason == FinishReason::kStop);
    CHECK(completion.output_ids == expected_output(request));
    CHECK(completion.output_ids.size() <= 4);
  }

  TEST_CASE("ends a loop") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(20));
    Request request = text_request({4, 5, 6}, 100);
    // All ids but 8 are stop ids, which are masked until there are 100 tokens, so 8 is repeated.
    for (std::int32_t id = 0; id < kFakeVocab; ++id) {
      if (id != 8) request.sampling.stop_ids.push_back(id);
    }
    request.sampling.min_new_tokens = 100;
    engine.submit(std::move(request));
    const Completion completion = run_until_idle(engine).at(0);
    CHECK(completion.finish_reason == FinishReason::kLoop);
    CHECK(completion.output_ids == std::vector<std::int32_t>(64, 8));
  }

  TEST_CASE("the video changes the output, and so does each of its tokens") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(20));
    Request request = text_request({4, 32000, 32000, 6}, 12);
    request.vision_positions = {1, 2};
    request.vision =
        std::make_shared<const Tensor>(Tensor::zeros(DType::kF32, Shape{2, kFakeHidden}));
    Request changed = request;
    Tensor other = request.vision->clone();
    other.as<float>()[2 * kFakeHidden - 1] = 0.5F;
    changed.vision = std::make_shared<const Tensor>(std::move(other));
    engine.submit(request);
    engine.submit(changed);
    const std::vector<Completion> completions = run_until_idle(engine);
    CHECK(completions.at(0).output_ids != completions.at(1).output_ids);
    CHECK(completions[0].vision_tokens == 2);
  }

  TEST_CASE("refuses what can never fit, with the numbers, and leaves no trace") {
    Room room;
    FakeDecoder short_decoder(50);
    std::string message;
    TestedEngine few_pages(room.decoder, room.stream, options_with_pages(2));
    CHECK(code_of(
              [&] {
                few_pages.submit(text_request({1, 2, 3}, 31));
              },
              &message) == ErrorCode::kTooLong);
    CHECK(message.find("3 prompt tokens and 31 new tokens need 3 KV pages") != std::string::npos);
    few_pages.submit(text_request({1, 2, 3}, 30));

    TestedEngine few_positions(short_decoder, room.stream, options_with_pages(20));
    CHECK(code_of(
              [&] {
                few_positions.submit(text_request({1, 2, 3}, 49));
              },
              &message) == ErrorCode::kTooLong);
    CHECK(message.find("need 51 positions; the model has 50") != std::string::npos);
    CHECK(few_positions.idle());
    few_positions.submit(text_request({1, 2, 3}, 48));
    CHECK(run_until_idle(few_positions).at(0).output_ids.size() <= 48);
  }

  TEST_CASE("refuses a request that contradicts itself") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(20));
    CHECK_THROWS_AS(engine.submit(text_request({}, 5)), Error);
    CHECK_THROWS_WITH_AS(engine.submit(text_request({1, kFakeVocab}, 5)),
                         doctest::Contains("prompt id 61"), Error);
    CHECK(code_of([&] { engine.submit(text_request({1}, 0)); }) == ErrorCode::kUsage);

    struct Case {
      const char* name;
      std::vector<std::int32_t> positions;
      Shape shape;
    };
    const Case cases[] = {{"fewer rows", {1, 2}, {1, kFakeHidden}},
                          {"narrow rows", {1, 2}, {2, kFakeHidden - 1}},
                          {"descending", {2, 1}, {2, kFakeHidden}},
                          {"twice", {1, 1}, {2, kFakeHidden}},
                          {"beyond the prompt", {1, 4}, {2, kFakeHidden}},
                          {"negative", {-1, 2}, {2, kFakeHidden}}};
    for (const Case& c : cases) {
      CAPTURE(std::string(c.name));
      Request request = text_request({1, 2, 3, 4}, 5);
      request.vision_positions = c.positions;
      request.vision = std::make_shared<const Tensor>(Tensor::zeros(DType::kF32, c.shape));
      CHECK_THROWS_AS(engine.submit(std::move(request)), Error);
    }
    CHECK(engine.idle());
  }

  TEST_CASE("cancels a waiting and a running request; the others do not notice") {
    Room room;
    EngineOptions options = options_with_pages(20);
    options.max_num_seqs = 2;
    TestedEngine engine(room.decoder, room.stream, options);
    std::vector<RequestId> ids;
    for (std::int32_t i = 0; i < 4; ++i) ids.push_back(engine.submit(text_request({i, 7}, 20)));
    for (int step = 0; step < 5; ++step) CHECK(engine.step().empty());
    CHECK(engine.cancel(ids[0]));
    CHECK(engine.cancel(ids[3]));
    CHECK_FALSE(engine.cancel(ids[3]));
    CHECK_FALSE(engine.cancel(RequestId{99}));
    const std::vector<Completion> completions = run_until_idle(engine);
    REQUIRE(completions.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(completions[i].id == ids[i + 1]);
      const auto prompt_id = static_cast<std::int32_t>(i + 1);
      CHECK(completions[i].output_ids == expected_output(text_request({prompt_id, 7}, 20)));
    }
  }

  TEST_CASE("broken logits fail their own request only") {
    Room room;
    room.decoder.poison_token = 40;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(20));
    const RequestId good = engine.submit(text_request({1, 2, 3}, 6));
    const RequestId bad = engine.submit(text_request({1, 40, 3}, 6));
    for (const Completion& completion : run_until_idle(engine)) {
      if (completion.id == bad) {
        CHECK(completion.finish_reason == FinishReason::kFailed);
        CHECK(completion.output_ids.empty());
        REQUIRE(completion.error.has_value());
        CHECK(std::string(completion.error->what()).find("NaN") != std::string::npos);
      } else {
        CHECK(completion.id == good);
        CHECK(completion.output_ids == expected_output(text_request({1, 2, 3}, 6), 40));
      }
    }
  }

  TEST_CASE("when the decoder throws, the step has not happened") {
    Room room;
    int num_calls = 0;
    room.decoder.on_forward = [&](const testing::BatchArrays&) {
      if (++num_calls % 3 == 0) throw Error(ErrorCode::kOutOfMemory, "a hiccup");
    };
    TestedEngine engine(room.decoder, room.stream, options_with_pages(20));
    std::vector<Request> requests;
    for (std::uint64_t i = 0; i < 5; ++i) {
      requests.push_back(random_request(i, 100));
      engine.submit(requests.back());
    }
    std::vector<Completion> completions;
    int num_throws = 0;
    while (!engine.idle()) {
      REQUIRE(num_calls < 1000);
      try {
        for (Completion& c : engine.step()) completions.push_back(std::move(c));
      } catch (const Error&) {
        ++num_throws;
      }
    }
    CHECK(num_throws > 3);
    REQUIRE(completions.size() == 5);
    for (const Completion& c : completions) {
      CHECK(c.output_ids == expected_output(requests[static_cast<std::size_t>(c.id)]));
    }
  }

  TEST_CASE("a budget for fewer than two pages is refused with the numbers") {
    Room room;
    std::string message;
    CHECK(code_of([&] { TestedEngine engine(room.decoder, room.stream, options_with_pages(1)); },
                  &message) == ErrorCode::kOutOfMemory);
    CHECK(message.find("2.05 kB holds 1 page of 16 tokens (2.05 kB each)") != std::string::npos);
    EngineOptions options = options_with_pages(4);
    options.kv_dtype = DType::kI32;
    CHECK(code_of([&] { TestedEngine engine(room.decoder, room.stream, options); }) ==
          ErrorCode::kUsage);
    options = options_with_pages(4);
    options.max_num_seqs = 0;
    CHECK(code_of([&] { TestedEngine engine(room.decoder, room.stream, options); }) ==
          ErrorCode::kUsage);
    options.max_num_seqs = 1;
    options.max_num_batched_tokens = 0;
    CHECK(code_of([&] { TestedEngine engine(room.decoder, room.stream, options); }) ==
          ErrorCode::kUsage);
  }

  TEST_CASE("takes no more pages than all sequences together can fill") {
    Room room;
    FakeDecoder decoder(100);  // needs 7 pages per sequence
    EngineOptions options = options_with_pages(1'000'000);
    options.max_num_seqs = 3;
    const TestedEngine engine(decoder, room.stream, options);
    CHECK(engine.stats().pages_total == 21);
  }

  TEST_CASE("counts what it did") {
    Room room;
    EngineOptions options = options_with_pages(20);
    options.max_num_batched_tokens = 10;
    TestedEngine engine(room.decoder, room.stream, options);
    engine.submit(text_request(std::vector<std::int32_t>(21, 1), 4));
    CHECK(run_until_idle(engine).size() == 1);
    EngineStats stats = engine.stats();
    CHECK(stats.steps == 6);  // chunks of 10, 10 and 1, then three decodes
    CHECK(stats.prefill_tokens == 21);
    CHECK(stats.decode_tokens == 3);
    CHECK(stats.decode_steps_tokens == 3);
    CHECK(stats.decode_steps_us <= stats.busy_us);
    CHECK(stats.recomputed_tokens == 0);
    CHECK(stats.preemptions == 0);
    CHECK(stats.mean_batch == 1);
    CHECK(stats.pages_total == 20);
    CHECK(stats.pages_peak == 2);

    TestedEngine tight(room.decoder, room.stream, options_with_pages(4));
    tight.submit(text_request({1, 2, 3}, 50));
    tight.submit(text_request({4, 5, 6}, 50));
    std::int64_t num_preemptions = 0;
    for (const Completion& c : run_until_idle(tight)) num_preemptions += c.num_preemptions;
    stats = tight.stats();
    CHECK(stats.preemptions == 1);
    CHECK(num_preemptions == 1);
    CHECK(stats.recomputed_tokens == 32);       // two full pages
    CHECK(stats.prefill_tokens == 3 + 3 + 33);  // including the token chosen last
    CHECK(stats.decode_tokens == 49 + 48);
  }
}

}  // namespace
}  // namespace caption::engine
