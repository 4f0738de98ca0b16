// Replays requests with several kinds of drafts on a small random decoder. No times are asserted.
#include "bench/draft_replay.h"

#include <doctest/doctest.h>

#include <vector>

#include "backend/thread_pool.h"
#include "bench/workload.h"
#include "model/random_model.h"

namespace caption::bench {
namespace {

const model::DecoderSpec kShape = {.num_layers = 2,
                                   .hidden = 64,
                                   .intermediate = 128,
                                   .num_heads = 4,
                                   .num_kv_heads = 2,
                                   .head_dim = 16,
                                   .vocab = 320,
                                   .max_positions = 1024,
                                   .qk_norm = true};

engine::EngineStats times(std::int64_t busy_us, std::int64_t decode_us, std::int64_t tokens) {
  engine::EngineStats stats;
  stats.busy_us = busy_us;
  stats.decode_steps_us = decode_us;
  stats.decode_steps_tokens = tokens;
  return stats;
}

TEST_SUITE("bench/draft_replay") {
  TEST_CASE("every method gives all outputs in every round, and the archive those it was told") {
    ThreadPool pool{1};
    Stream stream{pool};
    const std::unique_ptr<model::Decoder> decoder =
        model::make_random_decoder(stream, kShape, weights::WeightFormat::kBF16, 3);
    std::vector<ReplayedRequest> requests;
    for (engine::Request& request : make_requests(make_fixed_workload(7, 5, 40), kShape, 1)) {
      requests.emplace_back().request = std::move(request);
    }
    ReplayOptions options;
    options.engine = {.max_num_seqs = 2,
                      .max_num_batched_tokens = 64,
                      .kv_cache_bytes = 8 << 20,
                      .kv_dtype = DType::kBF16};
    options.num_rounds = 3;
    options.tokens_per_turn = 16;
    engine::Engine engine(*decoder, stream, options.engine);
    for (const ReplayedRequest& request : requests) engine.submit(request.request);
    while (!engine.idle()) {
      for (const engine::Completion& done : engine.step()) {
        options.known_texts.push_back(done.output_ids);
      }
    }
    const std::vector<ReplayedMethod> methods = {
        {.how = {.method = drafts::Method::kNone}},
        {.how = {.method = drafts::Method::kArchive, .is_adaptive = false}}};
    const std::vector<ReplayedRow> rows =
        replay_drafts(*decoder, stream, requests, methods, options);
    REQUIRE(rows.size() == 2);
    for (const ReplayedRow& row : rows) {
      CHECK(row.outputs_are_equal);
      CHECK(row.num_output_tokens == 7 * 40);
      REQUIRE(row.rounds.size() == 3);
      CHECK(row.speed_ratio(rows[0]).count == 3);
    }
    for (int round = 0; round < 3; ++round) {
      CHECK(rows[0].rounds[static_cast<std::size_t>(round)].accepted_tokens == 0);
      CHECK(rows[1].rounds[static_cast<std::size_t>(round)].accepted_tokens > 7 * 20);
    }
  }

  TEST_CASE("ratios are those of the rounds, of decoding by tokens") {
    ReplayedRow base;
    ReplayedRow row;
    base.rounds = {times(100, 50, 10), times(300, 60, 10), times(200, 50, 10)};
    row.rounds = {times(50, 10, 4), times(100, 30, 10), times(50, 0, 0)};
    const MedianInterval speed = row.speed_ratio(base);
    CHECK(speed.median == 3);
    CHECK(speed.low == 2);
    CHECK(speed.high == 4);
    const MedianInterval decoding = row.decode_speed_ratio(base);
    CHECK(decoding.count == 2);  // the third round had no step without prompts
    CHECK(decoding.median == doctest::Approx(2));
  }
}

}  // namespace
}  // namespace caption::bench
