// Decodes with planted drafts on a small random decoder. No times are asserted.
#include "bench/draft_bench.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "backend/thread_pool.h"
#include "base/json.h"
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

TEST_SUITE("bench/draft_bench") {
  TEST_CASE("planted drafts change no output, and those that are right save steps") {
    ThreadPool pool{1};
    Stream stream{pool};
    const std::unique_ptr<model::Decoder> decoder =
        model::make_random_decoder(stream, kShape, weights::WeightFormat::kBF16, 3);
    DraftBenchOptions options;
    options.batches = {1, 3};
    options.agreements = {0, 0.9};
    options.prompt_tokens = 5;
    options.output_tokens = 60;
    options.engine = {
        .max_num_batched_tokens = 64, .kv_cache_bytes = 8 << 20, .kv_dtype = DType::kBF16};
    std::vector<std::string> runs;
    options.on_run = [&](const std::string& run) { runs.push_back(run); };
    const std::vector<DraftRow> rows = bench_drafts(*decoder, stream, options);
    REQUIRE(rows.size() == 4);
    CHECK(runs.size() == 6);  // and the recording of each batch's outputs
    for (const DraftRow& row : rows) {
      CAPTURE(row.batch);
      CAPTURE(row.agreement);
      CHECK(row.outputs_are_equal);
      CHECK(row.tokens_per_s > 0);
      CHECK(row.plain_tokens_per_s > 0);
      CHECK(row.tokens_per_step >= 1);
      CHECK(row.tokens_per_step <= 1 + options.max_drafts);
      // Only a guess after fewer equal tokens than a text begins with is right by chance.
      if (row.agreement == 0) CHECK(row.tokens_per_step < 1.5);
    }
    const std::string table = to_table("tiny", rows);
    CHECK(table.starts_with("tiny\n"));
    CHECK(table.find("DIFFER") == std::string::npos);
    const JsonObject json = JsonObject::parse(to_json("tiny", rows), "json", ErrorCode::kInternal);
    CHECK(json.get_string("model", "") == "tiny");
    CHECK(json.get_objects("rows").size() == 4);
  }

  TEST_CASE("the table says how much runs of the same work without drafts differed") {
    std::vector<DraftRow> rows(3);
    for (DraftRow& row : rows) row.batch = 1;
    rows[0].plain_tokens_per_s = 50;
    rows[1].plain_tokens_per_s = 100;
    rows[2].plain_tokens_per_s = 130;
    CHECK(to_table("tiny", rows).find("0.50 to 1.3 of its median speed") != std::string::npos);
    rows.resize(1);
    CHECK(to_table("tiny", rows).find("scatter") == std::string::npos);
  }
}

}  // namespace
}  // namespace caption::bench
