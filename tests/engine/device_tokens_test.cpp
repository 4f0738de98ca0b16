// The tokens that a device chooses where its logits are. On the CPU, whose logits the host reads in
// place, the same requests run through the host's sampler; every test demands the same tokens.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/profile.h"
#include "backend/thread_pool.h"
#include "base/error.h"
#include "engine/engine.h"
#include "tests/engine/fake_decoder.h"
#include "tests/support/oracle_drafts.h"

namespace caption::engine {
namespace {

struct Room {
  ThreadPool pool{1};
  Stream stream{testing::tested_context(), pool};
  FakeDecoder decoder;
};

// A text that repeats its ids, so that penalties and n-grams of the prompt matter.
Request text_request(std::int32_t first_id, const sampling::SamplingParams& sampling) {
  Request request;
  for (std::int32_t i = 0; i < 12; ++i) {
    request.prompt_ids.push_back((first_id + i % 5) % static_cast<std::int32_t>(kFakeVocab));
  }
  request.sampling = sampling;
  return request;
}

struct Kind {
  const char* name;
  sampling::SamplingParams sampling;
};

std::vector<Kind> all_kinds() {
  std::vector<Kind> kinds = {
      {"greedy", {}},
      {"repetition penalty", {.repetition_penalty = 1.7}},
      {"n-gram ban", {.no_repeat_ngram_size = 1}},
      {"penalties of the output alone",
       {.repetition_penalty = 3, .no_repeat_ngram_size = 1, .counts_prompt = false}},
      {"temperature", {.temperature = 0.9, .top_k = 0, .seed = 4}},
      {"top_k", {.temperature = 1.5, .top_k = 4, .seed = 5}},
      {"top_p", {.temperature = 1.5, .top_k = 0, .top_p = 0.7, .seed = 6}},
      {"all together",
       {.temperature = 0.7,
        .top_p = 0.9,
        .repetition_penalty = 1.1,
        .no_repeat_ngram_size = 2,
        .seed = 7}},
  };
  std::vector<std::int32_t> even_ids;
  for (std::int32_t id = 0; id < kFakeVocab; id += 2) even_ids.push_back(id);
  kinds.push_back({"no stop id before the fifth", {.min_new_tokens = 5, .stop_ids = even_ids}});
  kinds.push_back({"drawn, no stop id before the fifth",
                   {.temperature = 1, .top_k = 3, .min_new_tokens = 5, .stop_ids = even_ids}});
  return kinds;
}

// Runs the requests and checks that each gives the tokens that it has by definition.
std::vector<Completion> check_outputs(Room& room, const EngineOptions& options,
                                      const std::vector<Request>& requests) {
  TestedEngine engine(room.decoder, room.stream, options);
  std::map<RequestId, const Request*> submitted;
  for (const Request& request : requests) submitted[engine.submit_as_is(request)] = &request;
  std::vector<Completion> completions = run_until_idle(engine);
  CHECK(completions.size() == requests.size());
  for (const Completion& completion : completions) {
    CAPTURE(static_cast<std::int64_t>(completion.id));
    CHECK_FALSE(completion.error.has_value());
    CHECK(completion.output_ids == expected_output(*submitted.at(completion.id)));
  }
  return completions;
}

std::int64_t calls_of(const Profile& profile, std::string_view operation) {
  std::int64_t calls = 0;
  for (const Profile::Entry& entry : profile.entries()) {
    if (entry.key.operation == operation) calls += entry.calls;
  }
  return calls;
}

std::int64_t num_preemptions(const std::vector<Completion>& completions) {
  std::int64_t sum = 0;
  for (const Completion& completion : completions) sum += completion.num_preemptions;
  return sum;
}

TEST_SUITE("engine/device_tokens") {
  TEST_CASE("every way to choose a token gives the tokens of the definition") {
    for (const Kind& kind : all_kinds()) {
      CAPTURE(std::string(kind.name));
      Room room;
      sampling::SamplingParams sampling = kind.sampling;
      sampling.max_new_tokens = 8;
      check_outputs(room, options_with_pages(20),
                    {text_request(3, sampling), text_request(30, sampling)});
    }
  }

  TEST_CASE("where the device chooses, a step has one call, and the host none") {
    Room room;
    Profile profile;
    room.stream.set_profile(&profile);
    std::vector<Request> requests(3, text_request(3, {.max_new_tokens = 4}));
    check_outputs(room, options_with_pages(20), requests);
    const bool on_host = room.stream.device() == Device::kCpu;
    CHECK(calls_of(profile, "sample_rows") == (on_host ? 0 : 4));
    CHECK(calls_of(profile, "sampling") == (on_host ? 12 : 0));

    // Nobody needs the device's choice.
    profile.clear();
    for (Request& request : requests) request.sampling.num_logprobs = 0;
    check_outputs(room, options_with_pages(20), requests);
    CHECK(calls_of(profile, "sample_rows") == 0);
    CHECK(calls_of(profile, "sampling") == 12);
  }

  TEST_CASE("the device finds the candidates of all beams of a step in one call") {
    Room room;
    Profile profile;
    room.stream.set_profile(&profile);
    const sampling::SamplingParams beams{.repetition_penalty = 1.3,
                                         .no_repeat_ngram_size = 2,
                                         .min_new_tokens = 2,
                                         .max_new_tokens = 5,
                                         .stop_ids = {3, 9, 20},
                                         .num_beams = 3,
                                         .early_stopping = sampling::EarlyStopping::kNever};
    sampling::SamplingParams of_output = beams;
    of_output.counts_prompt = false;
    of_output.num_beams = 2;
    check_outputs(room, options_with_pages(40),
                  {text_request(3, beams), text_request(30, of_output),
                   text_request(9, {.max_new_tokens = 4})});
    const bool on_host = room.stream.device() == Device::kCpu;
    CHECK(calls_of(profile, "beam_candidates") == 5);
    CHECK(calls_of(profile, "sampling") == (on_host ? 4 : 0));
  }

  TEST_CASE("rows that the host needs share steps with rows that it does not") {
    for (const BatchMode batching : {BatchMode::kContinuous, BatchMode::kStatic}) {
      CAPTURE(static_cast<int>(batching));
      Room room;
      std::vector<Request> requests;
      const auto add = [&](std::int32_t first_id, sampling::SamplingParams sampling) -> Request& {
        sampling.max_new_tokens = 3 + static_cast<std::int32_t>(requests.size());
        return requests.emplace_back(text_request(first_id, sampling));
      };
      std::vector<float> seen;
      add(1, {.num_logprobs = 2});
      add(2, {.no_repeat_ngram_size = 1});
      add(3, {.temperature = 1, .top_k = 5, .seed = 1});
      add(4, {.num_beams = 2});
      add(5, {}).process_logits = [&](std::span<float> logits) { seen.push_back(logits[0]); };
      add(6, {.temperature = 1, .top_k = 5, .seed = 2, .num_logprobs = 0});
      add(7, {.repetition_penalty = 1.3});
      EngineOptions options = options_with_pages(40);
      options.batching = batching;
      options.max_num_seqs = 5;
      for (const Completion& completion : check_outputs(room, options, requests)) {
        const Request& request = requests[static_cast<std::size_t>(completion.id)];
        const bool has_logprobs = request.sampling.num_logprobs >= 0;
        CHECK(completion.logprobs.size() == (has_logprobs ? completion.output_ids.size() : 0));
      }
      CHECK(seen.size() == 7);
    }
  }

  TEST_CASE("preempted requests go on with the tokens that they would have had") {
    Room room;
    std::vector<Request> requests;
    for (std::int32_t i = 0; i < 3; ++i) {
      requests.push_back(text_request(7 * i, {.temperature = i == 1 ? 0.8 : 0.0,
                                              .top_k = 5,
                                              .repetition_penalty = 1.2,
                                              .no_repeat_ngram_size = 3,
                                              .max_new_tokens = 24,
                                              .seed = 3}));
    }
    CHECK(num_preemptions(check_outputs(room, options_with_pages(4), requests)) > 0);
  }

  TEST_CASE("preempted beams start again and end with what they would have had") {
    Room room;
    std::vector<Request> requests;
    for (std::int32_t i = 0; i < 3; ++i) {
      requests.push_back(
          text_request(7 * i, {.repetition_penalty = 1.2, .max_new_tokens = 12, .num_beams = 2}));
    }
    CHECK(num_preemptions(check_outputs(room, options_with_pages(7), requests)) > 0);
  }

  TEST_CASE("chunks of prompts beside decoding rows have no token") {
    Room room;
    EngineOptions options = options_with_pages(20);
    options.max_num_batched_tokens = 5;
    std::vector<Request> requests(2, text_request(3, {.max_new_tokens = 9}));
    requests.push_back(text_request(20, {.no_repeat_ngram_size = 2, .max_new_tokens = 3}));
    check_outputs(room, options, requests);
  }

  TEST_CASE("drafts are held against tokens that count the drafts before them") {
    Room room;
    testing::OracleDrafts drafts(static_cast<std::int32_t>(kFakeVocab));
    std::vector<Request> requests = {
        text_request(3, {.repetition_penalty = 2, .no_repeat_ngram_size = 1, .max_new_tokens = 16}),
        text_request(40, {.temperature = 1,
                          .top_k = 9,
                          .repetition_penalty = 2,
                          .min_new_tokens = 9,
                          .max_new_tokens = 16,
                          .stop_ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
                          .seed = 8})};
    for (const Request& request : requests) {
      drafts.add(request.prompt_ids, expected_output(request));
    }
    EngineOptions options = options_with_pages(20);
    options.draft_source = &drafts;
    options.max_drafts = 3;
    TestedEngine engine(room.decoder, room.stream, options);
    for (const Request& request : requests) engine.submit_as_is(request);
    for (const Completion& completion : run_until_idle(engine)) {
      CHECK(completion.output_ids ==
            expected_output(requests[static_cast<std::size_t>(completion.id)]));
    }
    CHECK(engine.stats().accepted_tokens > 4);
    CHECK(engine.stats().draft_tokens > engine.stats().accepted_tokens);
  }

  TEST_CASE(
      "what gives no token fails its request alone, with the sentence of the host's sampler") {
    Room room;
    room.decoder.poison_token = 57;
    TestedEngine engine(room.decoder, room.stream, options_with_pages(20));
    Request broken = text_request(3, {.max_new_tokens = 5});
    broken.prompt_ids.push_back(57);
    Request hopeless = text_request(4, {.min_new_tokens = 5, .max_new_tokens = 5});
    for (std::int32_t id = 0; id < kFakeVocab; ++id) hopeless.sampling.stop_ids.push_back(id);
    const Request sound = text_request(5, {.temperature = 0.5, .max_new_tokens = 5, .seed = 2});
    engine.submit_as_is(broken);
    engine.submit_as_is(hopeless);
    engine.submit_as_is(sound);
    const auto completions = run_until_idle(engine);
    REQUIRE(completions.size() == 3);
    for (const Completion& completion : completions) {
      if (completion.id == RequestId{2}) {
        CHECK(completion.output_ids == expected_output(sound, 57));
        continue;
      }
      CHECK(completion.finish_reason == FinishReason::kFailed);
      CHECK(completion.output_ids.empty());
      REQUIRE(completion.error.has_value());
      const bool is_broken = completion.id == RequestId{0};
      CHECK(completion.error->code() == (is_broken ? ErrorCode::kBadModel : ErrorCode::kInternal));
      CHECK(std::string(completion.error->what()) ==
            (is_broken
                 ? "sampling: logit 5 of 61 is NaN; the model or its weights are broken"
                 : "sampling: every token is ruled out by no_repeat_ngram_size or min_new_tokens"));
    }
  }
}

}  // namespace
}  // namespace caption::engine
