// Decodes with drafts of models on small random decoders. No times are asserted.
#include "bench/model_draft_bench.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "backend/thread_pool.h"
#include "base/error.h"
#include "base/json.h"
#include "bench/internal/run_lengths.h"
#include "kv/page_pool.h"
#include "model/random_model.h"

namespace caption::bench {
namespace {

constexpr std::array<std::int32_t, 3> kFixedDepths = {0, 1, 4};  // 0: none

model::DecoderSpec shape_of(std::int64_t num_layers) {
  return {.num_layers = num_layers,
          .hidden = 64,
          .intermediate = 128,
          .num_heads = 4,
          .num_kv_heads = 2,
          .head_dim = 16,
          .vocab = 320,
          .max_positions = 1024,
          .qk_norm = true};
}

DraftBenchOptions small_options(DType kv_dtype) {
  DraftBenchOptions options;
  options.batches = {1, 3};
  options.agreements = {kOwnGuesses, 0, 0.9};
  options.prompt_tokens = 5;
  options.output_tokens = 60;
  options.engine = {.max_num_batched_tokens = 64, .kv_cache_bytes = 8 << 20, .kv_dtype = kv_dtype};
  return options;
}

// Rounds of 30 tokens, 2 besides those to learn from.
ModelDraftOptions short_rounds(const DraftBenchOptions& common) {
  ModelDraftOptions options;
  options.common = common;
  options.common.output_tokens = 30;
  options.depths = {1, 4, kAdaptiveDepth};
  options.num_rounds = 2;
  return options;
}

// The largest difference between the share of n planted runs and its probability, as RunLengths
// says.
double tolerance(double n) { return (3 + 3.53 * std::log(n)) / n; }

void check(const std::vector<ModelDraftRow>& rows, double least_own_tokens_per_step) {
  REQUIRE(rows.size() == 18);  // 2 batches, 3 agreements, 3 depths
  for (const ModelDraftRow& row : rows) {
    CAPTURE(row.batch);
    CAPTURE(row.agreement);
    CAPTURE(row.depth);
    CHECK(row.outputs_are_equal);
    CHECK(row.ratio.median > 0);
    CHECK(row.ratio.count == 2);
    CHECK(row.step_us > 0);
    CHECK(row.plain_step_us > 0);
    CHECK(row.tokens_per_step >= 1);
    if (row.agreement == 0) CHECK(row.tokens_per_step == 1);
    if (row.depth == kAdaptiveDepth) {
      CHECK(row.of_best.count == 2);
      CHECK(std::count(kFixedDepths.begin(), kFixedDepths.end(), row.best_depth) == 1);
      continue;
    }
    CHECK(row.pass_us > 0);
    CHECK(row.tokens_per_step <= 1 + row.depth);
    if (row.agreement == kOwnGuesses) {
      CHECK(row.tokens_per_step > least_own_tokens_per_step);
      continue;
    }
    CHECK(row.expected_ratio > 0);
    CHECK(row.formula_ratio > 0);
    if (row.agreement == 0.9) CHECK(row.tokens_per_step > 1.3);
  }
}

TEST_SUITE("bench/model_draft_bench") {
  TEST_CASE("planted runs of right guesses have the probabilities that they shall have") {
    for (const double agreement : {0.0, 0.3, 0.6, 0.9}) {
      for (const double start : {0.0, 0.37, 0.999}) {
        RunLengths runs(agreement, start);
        constexpr int kNumRuns = 2000;
        std::array<int, 9> at_least{};
        for (int i = 0; i < kNumRuns; ++i) {
          const std::int64_t run = runs.next();
          for (std::int64_t k = 0; k <= std::min<std::int64_t>(run, 8); ++k) {
            ++at_least[static_cast<std::size_t>(k)];
          }
        }
        for (std::size_t k = 0; k < at_least.size(); ++k) {
          const double expected = std::pow(agreement, static_cast<double>(k));
          CHECK(std::abs(at_least[k] / double{kNumRuns} - expected) <= tolerance(kNumRuns));
        }
      }
    }
  }

  TEST_CASE("the formula takes M + C for the time of a step without guesses") {
    ThreadPool pool{1};
    Stream stream{pool};
    const std::unique_ptr<model::Decoder> decoder =
        model::make_random_decoder(stream, shape_of(3), weights::WeightFormat::kBF16, 3);
    ModelDraftOptions options = short_rounds(small_options(DType::kF32));
    options.common.batches = {1};
    options.common.agreements = {0.5};
    options.depths = {1, 2, 4};
    options.num_rounds = 1;  // the median over the rounds is then the ratio of one
    const std::vector<ModelDraftRow> rows =
        bench_model_drafts(*decoder, stream, make_self_draft({1}), options);
    REQUIRE(rows.size() == 3);
    const auto tokens_of = [](std::int32_t depth) { return 2 - std::pow(0.5, depth); };
    // Relative to a step without guesses, a step with d guesses takes d * C longer.
    double sum = 0;
    double sum_of_squares = 0;
    for (const ModelDraftRow& row : rows) {
      sum += row.depth * (tokens_of(row.depth) / row.expected_ratio - 1);
      sum_of_squares += row.depth * row.depth;
    }
    for (const ModelDraftRow& row : rows) {
      const double c = (tokens_of(row.depth) / row.formula_ratio - 1) / row.depth;
      CHECK(c == doctest::Approx(sum / sum_of_squares).epsilon(1e-9));
    }
  }

  TEST_CASE("requests that the pages cannot hold are the fault of the benchmark's options") {
    ThreadPool pool{1};
    Stream stream{pool};
    const std::unique_ptr<model::Decoder> decoder =
        model::make_random_decoder(stream, shape_of(3), weights::WeightFormat::kBF16, 3);
    DraftBenchOptions options = small_options(DType::kF32);
    // Two pages, of which no request has room in one.
    options.engine.kv_cache_bytes =
        2 * kv::kPageTokens * model::kv_token_bytes(decoder->spec(), DType::kF32);
    const auto is_named = doctest::Contains("raise --kv-cache-bytes, or make the workload's");
    CHECK_THROWS_WITH_AS(find_layers(*decoder, stream, options), is_named, Error);
    CHECK_THROWS_WITH_AS(
        bench_model_drafts(*decoder, stream, make_self_draft({1}), short_rounds(options)), is_named,
        Error);
  }

  TEST_CASE("layers that nearly return their input are found, and their guesses are accepted") {
    ThreadPool pool{1};
    Stream stream{pool};
    const std::vector<std::int32_t> faint = {2, 3, 4, 5, 6};
    for (const DType kv_dtype : {DType::kF32, DType::kI8}) {
      const std::unique_ptr<model::Decoder> decoder =
          model::make_random_decoder(stream, shape_of(9), weights::WeightFormat::kBF16, 3, faint);
      const LayersFound found = find_layers(*decoder, stream, small_options(kv_dtype));
      REQUIRE(found.layers.pays());
      for (const std::int32_t layer : found.layers.layers) {
        CHECK(std::count(faint.begin(), faint.end(), layer) == 1);
      }
      CHECK(found.layers.layers.size() >= 4);
      CHECK(found.layers.acceptance > 0.7);
      CHECK(found.seconds > 0);
      const std::vector<ModelDraftRow> rows =
          bench_model_drafts(*decoder, stream, make_self_draft(found.layers.layers),
                             short_rounds(small_options(kv_dtype)));
      check(rows, 1.5);
      const std::string table = to_table("tiny", rows);
      CHECK(table.starts_with("tiny\n"));
      CHECK(table.find("DIFFER") == std::string::npos);
      const JsonObject json =
          JsonObject::parse(to_json("tiny", rows), "json", ErrorCode::kInternal);
      CHECK(json.get_objects("rows").size() == rows.size());
    }
  }

  TEST_CASE("where every layer matters nothing is left out") {
    ThreadPool pool{1};
    Stream stream{pool};
    const std::unique_ptr<model::Decoder> decoder =
        model::make_random_decoder(stream, shape_of(4), weights::WeightFormat::kBF16, 3);
    CHECK_FALSE(find_layers(*decoder, stream, small_options(DType::kF32)).layers.pays());
  }

  TEST_CASE("a second decoder's guesses change no output") {
    ThreadPool pool{1};
    Stream stream{pool};
    const std::unique_ptr<model::Decoder> decoder =
        model::make_random_decoder(stream, shape_of(3), weights::WeightFormat::kBF16, 3);
    const std::unique_ptr<model::Decoder> second =
        model::make_random_decoder(stream, shape_of(1), weights::WeightFormat::kBF16, 4);
    check(bench_model_drafts(*decoder, stream, make_second_decoder(*second, stream, 0.3),
                             short_rounds(small_options(DType::kBF16))),
          0.99);
  }
}

}  // namespace
}  // namespace caption::bench
