#include "bench/video_report.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/json.h"

namespace caption::bench {
namespace {

VideoRun make_run(double seconds) {
  VideoRun run;
  run.seconds = seconds;
  run.num_clips = 8;
  run.num_captions = 8;
  run.num_failed = 1;
  run.prompt_tokens = 1000;
  run.output_tokens = 200;
  run.clip_ms = summarise({100, 300});
  run.stages = {{"decode", 6, 2}, {"engine", 1, 1}};
  run.stats.mean_batch = 4;
  run.stats.steps = 50;
  run.stats.busy_us = 500'000;
  run.cost = {.flops = 1e9, .bytes = 2e9};
  return run;
}

VideoReport make_report() {
  VideoReport report;
  report.subject = {.model = "a model", .setting = "bf16"};
  report.max_num_seqs = 16;
  report.runs = {make_run(8), make_run(4), make_run(2)};
  report.before = {.read_bytes_per_s = 6e9, .f32_flops_per_s = 1e10, .flops_per_s = 2e10};
  report.after = {.read_bytes_per_s = 10e9, .f32_flops_per_s = 1e10, .flops_per_s = 2e10};
  report.scores = {{.metric = "meteor-ko", .value = 0.861, .low = 0.82, .high = 0.9}};
  return report;
}

TEST_SUITE("bench/video_report") {
  TEST_CASE("figures are those of the median run") {
    const VideoReport report = make_report();
    CHECK(report.median_run().seconds == 4);
    CHECK(report.median_run().clips_per_s() == 2);
    const std::string table = to_table(report);
    CHECK(table.find("8 clips captioned, 1 failed, in 4.00 s") != std::string::npos);
    CHECK(table.find("2.00  captioned clips\n") != std::string::npos);
    CHECK(table.find("200  p50 of 2 captions; p90") != std::string::npos);
    CHECK(table.find("captions/s") == std::string::npos);
    // 6 s of two workers in 4 s.
    CHECK(table.find("75.0 %  of 2 workers") != std::string::npos);
    CHECK(table.find("25.0 %  50 steps") != std::string::npos);
    // 2 GB in half a second, relative to the mean of 8 GB/s.
    CHECK(table.find("4.00 GB/s  50.0 % of the machine's") != std::string::npos);
    CHECK(table.find("0.861  [0.820, 0.900]") != std::string::npos);
    CHECK(table.find("stay in the caches") == std::string::npos);
  }

  TEST_CASE("more bytes than the memory gives are explained") {
    VideoReport report = make_report();
    for (VideoRun& run : report.runs) run.cost.bytes = 5e9;  // 10 GB/s beside a mean of 8
    CHECK(to_table(report).find("125 % of the machine's\n") != std::string::npos);
    CHECK(to_table(report).find("weights and pages stay in the caches\n") != std::string::npos);
  }

  TEST_CASE("arithmetic is beside the rate of the weights' products") {
    VideoReport report = make_report();
    CHECK(to_table(report).find("2.00 GFLOP/s  10.0 % of the machine's") != std::string::npos);
    report.operands = Operands::kF32;
    CHECK(to_table(report).find("10.0 GFLOP/s f32\n") != std::string::npos);
    CHECK(to_table(report).find("2.00 GFLOP/s  20.0 % of the machine's") != std::string::npos);
  }

  TEST_CASE("JSON holds every run") {
    const JsonObject json =
        JsonObject::parse(to_json(make_report()), "report", ErrorCode::kInternal);
    REQUIRE(json.get_objects("runs").size() == 3);
    const JsonObject run = json.get_objects("runs").at(2);
    CHECK(run.get_double("clips_per_s", 0) == 4);
    CHECK(run.get_object("clip_ms")->get_double("p50", 0) == 200);
    CHECK(json.get_object("scores")->get_object("meteor-ko")->get_double("low", 0) == 0.82);
  }

  TEST_CASE("several captions of a clip are counted apart from clips") {
    VideoReport report = make_report();
    report.runs = {make_run(4)};
    report.runs[0].num_captions = 16;
    const std::string table = to_table(report);
    CHECK(table.find("16 captions of 8 clips, 1 clip failed, in 4.00 s") != std::string::npos);
    CHECK(table.find("clips/s                       2.00  captioned clips\n") != std::string::npos);
    CHECK(table.find("captions/s                    4.00\n") != std::string::npos);
  }

  TEST_CASE("where nothing was captioned no figure of captions is given") {
    VideoReport report = make_report();
    report.runs = {make_run(4)};
    report.runs[0].num_clips = 0;
    report.runs[0].num_captions = 0;
    const std::string table = to_table(report);
    CHECK(table.find("0 clips captioned, 1 failed") != std::string::npos);
    CHECK(table.find("clips/s") == std::string::npos);
    CHECK(table.find("first token") == std::string::npos);
    CHECK(table.find("decode busy") != std::string::npos);
  }

  TEST_CASE("a report without runs is refused") { CHECK_THROWS_AS(to_table(VideoReport{}), Error); }
}

}  // namespace
}  // namespace caption::bench
