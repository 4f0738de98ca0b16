// The figures are those of the median run, per running sequence, relative to the first row.
#include "bench/price_report.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/json.h"

namespace caption::bench {
namespace {

VideoRun make_run(std::int64_t busy_us, double mean_pages) {
  VideoRun run;
  run.seconds = 1;
  run.num_clips = 4;
  run.num_captions = 4;
  run.num_failed = 1;
  run.output_tokens = 100;
  run.stats.busy_us = busy_us;
  run.stats.mean_pages_used = mean_pages;
  run.stats.page_bytes = 1000;
  run.stats.mean_batch = 2;
  return run;
}

PriceReport make_report() {
  PriceReport report;
  report.subject = {.model = "a model", .setting = "bf16"};
  report.rows.push_back(
      {.name = "all",
       .runs = {make_run(500'000, 8), make_run(100'000, 8), make_run(50'000, 8)},
       .scores = {{.metric = "meteor-ko", .value = 0.8, .low = 0.7, .high = 0.9}}});
  report.rows.push_back({.name = "half",
                         .runs = {make_run(50'000, 4)},
                         .scores = {{.metric = "meteor-ko", .value = 0.75, .low = 0, .high = 1}},
                         .differences = {{.value = -0.05, .low = -0.07, .high = 0.01}},
                         .captions = {.equal = 3, .all = 4},
                         .weight_bytes = 1234});
  report.rows.back().runs[0].stats.mean_compression_bytes = 600;
  return report;
}

TEST_SUITE("bench/price_report") {
  TEST_CASE("memory is per running sequence, speed that of the median run") {
    const PriceReport report = make_report();
    CHECK(report.rows[0].kv_bytes_per_sequence() == 4000);
    CHECK(report.rows[0].engine_tokens_per_s() == 1000);
    CHECK(report.rows[1].kv_bytes_per_sequence() == 2300);
    CHECK(report.rows[1].engine_tokens_per_s() == 2000);
    CHECK(PriceRow{.name = "idle", .runs = {VideoRun{}}}.kv_bytes_per_sequence() == 0);
    CHECK_THROWS_AS(PriceRow{}.median_run(), Error);
    // The slower of the middle two of an even number.
    const PriceRow twice{.name = "twice", .runs = {make_run(100'000, 8), make_run(500'000, 8)}};
    CHECK(twice.engine_tokens_per_s() == 200);
  }

  TEST_CASE("with drafts, decoding alone is compared as well") {
    PriceReport report = make_report();
    for (PriceRow& row : report.rows) {
      for (VideoRun& run : row.runs) {
        run.stats.decode_steps_us = 20'000;
        run.stats.decode_steps_tokens = 80;
        run.stats.decode_tokens = 100;
      }
    }
    CHECK(to_table(report).find("decode tok/s") == std::string::npos);
    report.rows[1].runs[0].stats.draft_tokens = 60;
    report.rows[1].runs[0].stats.accepted_tokens = 50;
    report.rows[1].runs[0].stats.decode_steps_us = 10'000;
    CHECK(report.rows[0].decode_tokens_per_s() == 4000);
    const std::string table = to_table(report);
    CHECK(table.substr(table.find("\nhalf")).find("8.00 k        2.00x         2.00") !=
          std::string::npos);
  }

  TEST_CASE("the table sets each row beside the first") {
    const std::string table = to_table(make_report());
    const std::string half = table.substr(table.find("\nhalf"));
    CHECK(half.find("0.575x") != std::string::npos);
    CHECK(half.find("2.00x") != std::string::npos);
    CHECK(half.find("0.750") != std::string::npos);
    CHECK(half.find("-0.050 [-0.070, +0.010]") != std::string::npos);
    CHECK(half.find("3 of 4") != std::string::npos);
    CHECK(table.find("0.700 to 0.900") != std::string::npos);
    CHECK(table.find("4 clips captioned, 1 failed; engine tok/s: output tokens of all captions") !=
          std::string::npos);
  }

  TEST_CASE("rows of other weights have these and their divergences in the place of KV pages") {
    PriceReport report = make_report();
    report.rows[0].weight_bytes = 2000;
    report.rows[0].logits = LogitPrice{.positions = 1003};
    report.rows[1].weight_bytes = 1000;
    report.rows[1].logits =
        LogitPrice{.positions = 1003, .mean_kl = 1e-12, .p99_kl = 0.0123, .top1_agreement = 0.985};
    report.price_table = "/prices/x.json";
    const std::string table = to_table(report);
    CHECK(table.find("weights") != std::string::npos);
    CHECK(table.find("KV/sequence") == std::string::npos);
    const std::string half = table.substr(table.find("\nhalf"));
    CHECK(half.find("1.00 kB") != std::string::npos);
    CHECK(half.find("0.500x") != std::string::npos);
    CHECK(half.find("< 1e-9") != std::string::npos);
    CHECK(half.find("0.012") != std::string::npos);
    CHECK(half.find("98.5 %") != std::string::npos);
    CHECK(table.find("at 1003 positions of its captions") != std::string::npos);
    const JsonObject json = JsonObject::parse(to_json(report), "report", ErrorCode::kInternal);
    CHECK(json.get_string("price_table", "") == "/prices/x.json");
    const JsonObject row = json.get_objects("rows").at(1);
    CHECK(row.require_int("positions", 0, 9999) == 1003);
    CHECK(row.get_double("mean_kl", 0) == 1e-12);
    CHECK(row.get_double("p99_kl", 0) == 0.0123);
    CHECK(row.get_double("top1_agreement", 0) == 0.985);
    CHECK_FALSE(JsonObject::parse(to_json(make_report()), "report", ErrorCode::kInternal)
                    .get_objects("rows")
                    .at(1)
                    .has("mean_kl"));
  }

  TEST_CASE("JSON holds every row") {
    const JsonObject json =
        JsonObject::parse(to_json(make_report()), "report", ErrorCode::kInternal);
    const auto rows = json.get_objects("rows");
    REQUIRE(rows.size() == 2);
    CHECK(rows[1].get_int("kv_bytes_per_sequence", 0, 0, 1 << 20) == 2300);
    CHECK(rows[1].get_object("scores")->get_double("meteor-ko", 0) == 0.75);
    const auto difference = rows[1].get_object("score_differences")->get_object("meteor-ko");
    REQUIRE(difference.has_value());
    CHECK(difference->get_double("value", 0) == -0.05);
    CHECK(difference->get_double("low", 0) == -0.07);
    CHECK(difference->get_double("high", 0) == 0.01);
    CHECK(rows[1].get_int("equal_captions", 0, 0, 9) == 3);
    CHECK(rows[1].get_int("compared_captions", 0, 0, 9) == 4);
    CHECK(rows[1].get_int("weight_bytes", 0, 0, 9999) == 1234);
    CHECK_FALSE(rows[0].has("weight_bytes"));
  }
}

}  // namespace
}  // namespace caption::bench
