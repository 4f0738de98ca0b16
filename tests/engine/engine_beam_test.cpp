// Beam search in the engine gives the output of its definition, for any other requests and page
// budget.
#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <vector>

#include "backend/thread_pool.h"
#include "base/error.h"
#include "engine/engine.h"
#include "tests/engine/fake_decoder.h"

namespace caption::engine {
namespace {

struct Room {
  ThreadPool pool{1};
  Stream stream{testing::tested_context(), pool};
  FakeDecoder decoder;
};

Request beam_request(std::uint64_t seed, std::int32_t num_beams, std::int32_t max_new_tokens) {
  Request request = family_request(1, seed, 200);
  request.sampling = {};
  request.sampling.num_beams = num_beams;
  request.sampling.length_penalty = 1.2;
  request.sampling.max_new_tokens = max_new_tokens;
  request.sampling.stop_ids = {3, 9};
  return request;
}

// Tokens of outputs that are long; on the emulated GPU, which takes milliseconds for a row, fewer.
std::int32_t many_tokens() { return testing::tested_context().device == Device::kCuda ? 8 : 40; }

TEST_SUITE("engine/beams") {
  TEST_CASE("gives the output of the definition, for every number of beams") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(200));
    for (const std::int32_t num_beams : {2, 3, 4, 8, 16}) {
      CAPTURE(num_beams);
      const Request request = beam_request(7, num_beams, many_tokens());
      engine.submit(request);
      const Completion completion = run_until_idle(engine).at(0);
      CHECK(completion.output_ids == expected_output(request));
      CHECK(completion.beam_score < 0);
      CHECK(completion.first_token_us > 0);
    }
  }

  TEST_CASE("the prompt is computed once and shared; beams copy only what they write") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(200));
    Request request = beam_request(7, 4, 20);
    request.prompt_ids.resize(45);
    request.sampling.stop_ids = {};
    engine.submit(request);
    run_until_idle(engine);
    const EngineStats stats = engine.stats();
    CHECK(stats.prefill_tokens == 45);
    CHECK(stats.decode_tokens == 4 * 19);
    // Two full pages of the prompt, and for each beam the page it has copied and one more.
    CHECK(stats.pages_peak <= 2 + 4 * 2 + 1);
  }

  TEST_CASE("the video decides every beam") {
    Room room;
    const Request request = beam_request(7, 4, 12);
    // Beams diverge at their first tokens, so outputs after different videos have nothing in
    // common.
    std::set<std::vector<std::int32_t>> outputs;
    for (int video = 0; video < 8; ++video) {
      Request other = request;
      Tensor vision = request.vision->clone();
      vision.as<float>()[0] += static_cast<float>(video);
      other.vision = std::make_shared<const Tensor>(std::move(vision));
      TestedEngine engine(room.decoder, room.stream, options_with_pages(60));
      room.decoder.on_forward = [&](const testing::BatchArrays& batch) {
        // After the prompt, each row of the step must read the pages that hold the video.
        if (batch.context_lens.size() < 2) return;
        const std::int32_t first_page = batch.block_tables[0];
        for (std::size_t s = 0; s < batch.context_lens.size(); ++s) {
          CHECK(batch.block_tables[s * static_cast<std::size_t>(batch.max_pages)] == first_page);
        }
      };
      engine.submit(other);
      outputs.insert(run_until_idle(engine).at(0).output_ids);
      room.decoder.on_forward = nullptr;
    }
    CHECK(outputs.size() == 8);
  }

  TEST_CASE("preempted beams start again and end the same") {
    Room room;
    EngineOptions options = options_with_pages(24);
    options.max_num_seqs = 9;
    TestedEngine engine(room.decoder, room.stream, options);
    std::vector<Request> requests;
    for (std::uint64_t i = 0; i < 12; ++i) {
      requests.push_back(i % 2 == 0 ? beam_request(i, 4, 40) : family_request(2, i, 150));
      if (i % 2 != 0) requests.back().sampling.num_beams = 1;
      engine.submit(requests.back());
    }
    std::int32_t num_beam_preemptions = 0;
    for (const Completion& c : run_until_idle(engine)) {
      const Request& request = requests[static_cast<std::size_t>(c.id)];
      CHECK(c.output_ids == expected_output(request));
      if (request.sampling.num_beams > 1) num_beam_preemptions += c.num_preemptions;
    }
    CHECK(num_beam_preemptions > 0);
  }

  TEST_CASE("more beams than can run together are refused with the numbers") {
    Room room;
    EngineOptions options = options_with_pages(60);
    options.max_num_seqs = 3;
    TestedEngine engine(room.decoder, room.stream, options);
    CHECK_THROWS_WITH_AS(engine.submit(beam_request(1, 4, 10)), doctest::Contains("allow 3"),
                         Error);
    CHECK(engine.idle());
    CHECK_NOTHROW(engine.submit(beam_request(1, 3, 10)));
  }

  TEST_CASE("beams that can never fit the pages are refused, and those that just fit run") {
    Room room;
    Request request = beam_request(7, 4, 20);
    request.prompt_ids.resize(45);
    // The longest beam has 64 tokens: two shared pages and two of each beam.
    TestedEngine small(room.decoder, room.stream, options_with_pages(9));
    CHECK_THROWS_WITH_AS(small.submit(request), doctest::Contains("in 4 beams need 10"), Error);
    TestedEngine enough(room.decoder, room.stream, options_with_pages(10));
    enough.submit(request);
    CHECK(run_until_idle(enough).at(0).output_ids == expected_output(request));
  }

  TEST_CASE("broken logits fail the request alone") {
    Room room;
    room.decoder.poison_token = 57;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(60));
    Request bad = beam_request(1, 2, 10);
    bad.prompt_ids.push_back(57);
    const Request good = beam_request(2, 2, 10);
    engine.submit(bad);
    engine.submit(good);
    for (const Completion& c : run_until_idle(engine)) {
      if (c.id == RequestId{0}) {
        CHECK(c.finish_reason == FinishReason::kFailed);
      } else {
        CHECK(c.output_ids == expected_output(good, 57));
      }
    }
  }
}

TEST_SUITE("engine/tokens") {
  TEST_CASE("tokens are handed out as they come, once each, also under preemption") {
    Room room;
    EngineOptions options = options_with_pages(9);
    TestedEngine engine(room.decoder, room.stream, options);
    std::vector<std::vector<std::int32_t>> heard(8);
    std::int32_t num_preemptions = 0;
    for (std::size_t i = 0; i < heard.size(); ++i) {
      Request request = family_request(1, i, 140);
      request.sampling.num_beams = 1;
      request.on_token = [&heard, i](std::int32_t token) {
        heard[i].push_back(token);
        return TokenVerdict::kContinue;
      };
      engine.submit(std::move(request));
    }
    for (const Completion& c : run_until_idle(engine)) {
      CHECK(c.output_ids == heard[static_cast<std::size_t>(c.id)]);
      num_preemptions += c.num_preemptions;
    }
    CHECK(num_preemptions > 0);
  }

  TEST_CASE("who hears the tokens may end the output") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(20));
    Request request = family_request(1, 1, 140);
    request.sampling = {.max_new_tokens = 30};
    int num_heard = 0;
    request.on_token = [&](std::int32_t) {
      return ++num_heard == 5 ? TokenVerdict::kStop : TokenVerdict::kContinue;
    };
    engine.submit(request);
    const Completion completion = run_until_idle(engine).at(0);
    CHECK(completion.output_ids.size() == 5);
    CHECK(completion.finish_reason == FinishReason::kStop);
  }

  TEST_CASE("beams have no tokens to hand out") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(60));
    Request request = beam_request(1, 2, 10);
    request.on_token = [](std::int32_t) { return TokenVerdict::kContinue; };
    CHECK_THROWS_WITH_AS(engine.submit(request), doctest::Contains("num_beams 1"), Error);
  }

  TEST_CASE("log-probabilities are those of the model's own logits, one per token") {
    Room room;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(20));
    Request request = family_request(1, 1, 140);
    request.sampling = {.repetition_penalty = 1.3, .max_new_tokens = 12, .num_logprobs = 61};
    engine.submit(request);
    const Completion completion = run_until_idle(engine).at(0);
    REQUIRE(completion.logprobs.size() == completion.output_ids.size());
    for (std::size_t i = 0; i < completion.logprobs.size(); ++i) {
      const sampling::TokenLogprobs& token = completion.logprobs[i];
      CHECK(token.chosen.id == completion.output_ids[i]);
      double sum = 0;
      for (const sampling::TokenLogprob& top : token.top) sum += std::exp(top.logprob);
      CHECK(sum == doctest::Approx(1));  // over the whole vocabulary
    }
    request.sampling.num_logprobs = -1;
    engine.submit(request);
    const Completion plain = run_until_idle(engine).at(0);
    CHECK(plain.logprobs.empty());
    CHECK(plain.output_ids == completion.output_ids);
  }
}

}  // namespace
}  // namespace caption::engine
