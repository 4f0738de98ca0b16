// Tests the comparison of formats: its bytes against the plans', and its text and JSON.
#include "plan/format_report.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "model/blueprint.h"
#include "plan/known_models.h"
#include "tests/plan/plan_inputs.h"

namespace caption::plan {
namespace {

using weights::WeightFormat;

PlanInput small_input(WeightFormat format) {
  PlanInput input = input_for("qwen3-0.6b");
  input.weights = format;
  input.max_num_seqs = 4;
  return input;
}

FormatRow row_of(const char* name, WeightFormat format, std::optional<double> loss = {}) {
  std::optional<FormatPrice> price;
  if (loss.has_value()) price = FormatPrice{.format = name, .mean_kl = *loss};
  return make_format_row(name, make_plan(small_input(format)), price);
}

FormatReport measured_report() {
  FoundPriceTable prices;
  prices.table.arithmetic = "avx512bf16";
  prices.table.positions = 1000;
  prices.table.clips = 16;
  prices.table.made_by = "a test";
  prices.path = "prices/x.json";
  return make_format_report(
      {row_of("f32", WeightFormat::kF32, 0), row_of("bf16", WeightFormat::kBF16, 1e-5),
       row_of("int8", WeightFormat::kInt8, 1e-3), row_of("int4", WeightFormat::kInt4, 0.5)},
      prices, "--model x");
}

TEST_SUITE("plan/format_report") {
  TEST_CASE("bytes in use are the plan's, with the pages of the videos at a time alone") {
    const Plan plan = make_plan(small_input(WeightFormat::kInt8));
    const std::int64_t of_videos =
        plan.num_concurrent * plan.pages_per_video * 16 * plan.token_bytes;
    REQUIRE(plan.num_concurrent == 4);
    CHECK(of_videos < plan.pool_bytes);
    CHECK(bytes_in_use(plan) == plan.total_bytes - plan.pool_bytes + of_videos);
    // A machine on which nothing fits still says what a video would take.
    PlanInput tiny = small_input(WeightFormat::kInt8);
    tiny.memory_bytes = 1 << 20;
    const Plan none = make_plan(tiny);
    REQUIRE_FALSE(none.fits);
    CHECK(bytes_in_use(none) ==
          none.total_bytes - none.pool_bytes + 4 * none.pages_per_video * 16 * none.token_bytes);
  }

  TEST_CASE("checkpoints that are yet to be made have rows of their own") {
    const PlanInput input = small_input(WeightFormat::kBF16);
    const FormatPrice price{.format = "bf16", .mean_kl = 1e-6};
    std::vector<FormatRow> rows = {row_of("bf16", WeightFormat::kBF16)};
    rows.push_back(make_made_row("gptq --calibrate", make_plan(input), price));
    rows.push_back(make_made_row("nf4", make_plan(input), std::nullopt));
    CHECK(rows[1].cost.name == "gptq (calibrated)");
    CHECK(rows[2].cost.name == "nf4 (made)");
    FormatReport report = make_format_report(rows, std::nullopt, "--model x");
    CHECK(report.chosen() == &report.rows[0]);
    CHECK(report.rows[1].is_on_front);
    CHECK(to_text(report).find(" gptq (calibrated) ") != std::string::npos);
    CHECK(to_text(report).find("caption-cli quantize MODEL -o DIR --format FORMAT") !=
          std::string::npos);
    const JsonObject json = JsonObject::parse(to_json(report), "report", ErrorCode::kInternal);
    const std::vector<JsonObject> formats = json.get_objects("formats");
    CHECK_FALSE(formats.at(0).has("made_as"));
    CHECK(formats.at(1).get_string("made_as", "") == "gptq --calibrate");
    CHECK(formats.at(1).get_double("mean_kl", 0) == 1e-6);
    CHECK_FALSE(formats.at(2).has("mean_kl"));
    // One that is made is not what a machine without room is told of.
    for (FormatRow& row : rows) row.cost.fits = false;
    rows[1].cost.memory_bytes = 1;
    report = make_format_report(rows, std::nullopt, "--model x");
    CHECK(&report.planned() == &report.rows[0]);
  }

  TEST_CASE("if nothing fits, text and JSON say why and what to do") {
    std::vector<FormatRow> rows;
    for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kInt8}) {
      PlanInput tiny = small_input(format);
      tiny.memory_bytes = 1 << 20;
      rows.push_back(make_format_row(format == WeightFormat::kBF16 ? "bf16" : "int8",
                                     make_plan(tiny), std::nullopt));
    }
    const std::string limit = rows[1].plan.limit_reason;
    REQUIRE_FALSE(limit.empty());
    const FormatReport report = make_format_report(rows, std::nullopt, "--model x");
    CHECK(&report.planned() == &report.rows[1]);  // the smaller one
    const std::string reason = "none of 2 formats fits; in int8, " + limit;
    CHECK(to_text(report).find("nothing is chosen: " + reason + "\n") != std::string::npos);
    const JsonObject json = JsonObject::parse(to_json(report), "report", ErrorCode::kInternal);
    CHECK(json.get_string("reason", "") == reason);
    CHECK_FALSE(json.get_bool("can_run", true));
  }

  TEST_CASE("what the budget does not count, the choice's warnings and other formats are named") {
    PlanInput input = small_input(WeightFormat::kInt8);
    input.queue_bytes = 3 << 20;
    input.fixed_bytes = 5 << 20;
    input.kv_cache_bytes = 1LL << 30;  // all of the memory below
    input.memory_bytes = 1LL << 30;
    FormatReport report = make_format_report({make_format_row("int8", make_plan(input), {})},
                                             std::nullopt, "--model x");
    report.left_out = {"nf4: for a reason"};
    REQUIRE(report.chosen() != nullptr);
    const std::vector<std::string>& warnings = report.chosen()->plan.warnings;
    REQUIRE(warnings.size() == 1);
    const std::string text = to_text(report);
    CHECK(text.find("\nwarning: " + warnings[0] + "\n") != std::string::npos);
    CHECK(text.find("\nleft out: nf4: for a reason\n") != std::string::npos);
    CHECK(text.find("the process (" + format_bytes(5 << 20) + ") and full queues (" +
                    format_bytes(3 << 20) + ")") != std::string::npos);
    const std::string json = to_json(report);
    CHECK(json.find(R"("warnings":["all pages and full queues)") != std::string::npos);
    CHECK(json.find(R"("left_out":["nf4: for a reason"])") != std::string::npos);

    input.device = PlanDevice::kCard;
    const FormatReport card = make_format_report({make_format_row("int8", make_plan(input), {})},
                                                 std::nullopt, "--model x");
    CHECK(to_text(card).find("full queues (") == std::string::npos);
  }

  TEST_CASE("the heading has the beams of a batch that cannot be") {
    PlanInput input = small_input(WeightFormat::kInt8);
    input.num_beams = 16;
    const FormatReport report = make_format_report({make_format_row("int8", make_plan(input), {})},
                                                   std::nullopt, "--model x");
    CHECK(to_text(report).find(", 16 beams a video, 4 sequences at a time, ") != std::string::npos);
    CHECK(to_text(report).find("0 videos") == std::string::npos);
  }

  TEST_CASE("a plan has one figure for a format, whether it is chosen or not") {
    for (const PlanDevice device : {PlanDevice::kHost, PlanDevice::kCard}) {
      for (const char* model : {"demo", "qwen3-0.6b", "qwen3-vl-2b"}) {
        PlanInput input = input_for(model);
        input.device = device;
        const Plan bf16 = make_plan(input);
        for (const FormatBytes& listed : bf16.weight_bytes_by_format) {
          input.weights = listed.format;
          CAPTURE(model);
          CAPTURE(weights::describe(listed.format));
          CHECK(make_plan(input).weight_bytes == listed.bytes);
        }
      }
    }
  }

  TEST_CASE("codes of a file count as they are read") {
    PlanInput input = input_for("qwen3-0.6b");
    const StepCost plain = cost_of(input.model, WeightFormat::kBF16, DType::kBF16, {});
    CHECK(plain.bytes == cost_of(*input.model.text, WeightFormat::kBF16, DType::kBF16, {}).bytes);
    std::int64_t saved = 0;
    for (model::Parameter& parameter : input.model.parameters) {
      if (parameter.role != weights::Role::kDecoderLinear) continue;
      parameter.codes = weights::StoredCodes{
          .method = "awq", .format = MatrixFormat::kAwq, .layout = {.group_columns = 128}};
      saved += 2 * parameter.shape.num_elements() -
               codes_bytes(parameter.rows(), parameter.columns(), parameter.codes->layout);
    }
    const StepCost coded = cost_of(input.model, WeightFormat::kBF16, DType::kBF16, {});
    CHECK(saved > 0);
    CHECK(plain.bytes - coded.bytes == static_cast<double>(saved));
  }

  TEST_CASE("the report chooses, marks the front and says where prices come from") {
    const FormatReport report = measured_report();
    REQUIRE(report.chosen() != nullptr);
    CHECK(report.chosen()->cost.name == "int8");
    CHECK(report.rows[3].is_on_front);  // the smallest
    const std::string text = to_text(report);
    CHECK(text.find("\n>* int8") != std::string::npos);
    CHECK(text.find("\n>") == text.rfind("\n>* int8"));
    CHECK(text.find("given: 30.0 GB/s, 200 GFLOP/s\n") != std::string::npos);
    CHECK(text.find("mean of 1000 positions") != std::string::npos);
    CHECK(text.find("prices/x.json") != std::string::npos);
    CHECK(text.find("chosen: int8 at ") != std::string::npos);

    const JsonObject json = JsonObject::parse(to_json(report), "report", ErrorCode::kInternal);
    CHECK(json.get_string("choice", "") == "int8");
    CHECK(json.get_bool("can_run", false));
    CHECK(json.require_int("batch", 0, 99) == 4);
    const std::vector<JsonObject> rows = json.get_objects("formats");
    REQUIRE(rows.size() == 4);
    CHECK(rows[2].require_int("memory_bytes", 0, 1LL << 40) == report.rows[2].cost.memory_bytes);
    CHECK(rows[2].get_double("mean_kl", 1) == 1e-3);
  }

  TEST_CASE("without prices the report says how to measure them") {
    const FormatReport report =
        make_format_report({row_of("bf16", WeightFormat::kBF16)}, std::nullopt, "--model x");
    CHECK(to_text(report).find("are not measured: run `caption-cli bench VIDEOS --price weights "
                               "--model x`\n") != std::string::npos);
    CHECK(to_json(report).find("mean_kl") == std::string::npos);
  }
}

}  // namespace
}  // namespace caption::plan
