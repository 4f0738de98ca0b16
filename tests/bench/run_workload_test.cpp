// Runs workloads through real engines on a small random decoder. No times are asserted.
#include "bench/run_workload.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "backend/thread_pool.h"
#include "base/json.h"
#include "bench/bench_report.h"
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

constexpr RooflineOptions kShort = {
    .buffer_bytes = 4 << 20, .num_passes = 1, .flops_pass_us = 1000};

struct Bench {
  ThreadPool pool{2};
  Stream stream{pool};
  std::unique_ptr<model::Decoder> decoder =
      model::make_random_decoder(stream, kShape, weights::WeightFormat::kBF16, 3);
  DecoderCosts costs{.model = model::decoder_blueprint(kShape),
                     .weights = weights::WeightFormat::kBF16};

  Comparison run(const Workload& workload, const std::vector<Variant>& variants, int repeat,
                 bool has_profile = false) {
    CompareOptions options;
    options.repeat = repeat;
    options.has_profile = has_profile;
    options.roofline = kShort;
    return compare(*decoder, stream, costs, workload, variants, options);
  }
};

engine::EngineOptions engine_options(std::int32_t max_num_seqs) {
  return {.max_num_seqs = max_num_seqs,
          .max_num_batched_tokens = 64,
          .kv_cache_bytes = 8 << 20,
          .kv_dtype = DType::kBF16};
}

TEST_SUITE("bench/run_workload") {
  TEST_CASE("static and continuous batching give the same tokens in other numbers of steps") {
    Bench bench;
    engine::EngineOptions options = engine_options(3);
    options.batching = engine::BatchMode::kStatic;
    const Variant fixed{.name = "static", .group = "static", .options = options};
    options.batching = engine::BatchMode::kContinuous;
    const Variant continuous{.name = "continuous", .group = "continuous", .options = options};
    const Comparison comparison =
        bench.run(make_uneven_workload(9, 8, 0.2), {fixed, continuous}, 2);
    REQUIRE(comparison.variants.size() == 2);
    CHECK(comparison.outputs_are_equal());
    const std::int64_t weight_bytes = model::placed_bytes(
        Context{}, model::decoder_blueprint(kShape), weights::WeightFormat::kBF16);
    const Measurement& first = comparison.variants.front().measurement();
    CHECK(first.needed_bytes == weight_bytes + first.stats.pages_peak * first.stats.page_bytes);
    for (const VariantResult& result : comparison.variants) {
      REQUIRE(result.runs.size() == 2);
      const Measurement& run = result.measurement();
      CHECK(run.num_requests == 9);
      CHECK(run.num_cut_short == 0);
      CHECK(run.prompt_tokens == 72);
      CHECK(run.output_tokens == 3 * (100 + 4 + 40));
      CHECK(run.latency_ms.count == 9);
      CHECK(run.cost.flops > 0);
      CHECK(run.cost.bytes > 0);
      CHECK(run.peak_bytes > 0);
    }
    const engine::EngineStats& waiting = comparison.variants[0].measurement().stats;
    const engine::EngineStats& flowing = comparison.variants[1].measurement().stats;
    CHECK(waiting.steps == 3 * 100);  // each batch runs as long as its longest output
    CHECK(flowing.steps < waiting.steps);
    CHECK(flowing.mean_batch > waiting.mean_batch);
  }

  TEST_CASE("a prefix cache computes less of the prompts and gives the same tokens") {
    Bench bench;
    engine::EngineOptions options = engine_options(4);
    const Variant off{.name = "off", .group = "off", .options = options};
    options.prefix_cache = engine::PrefixCache::kOn;
    const Variant on{.name = "on", .group = "on", .options = options};
    const Comparison comparison = bench.run(make_prefix_workload({.num_clips = 3,
                                                                  .prompts_per_clip = 3,
                                                                  .vision_tokens = 96,
                                                                  .prompt_tokens = 8,
                                                                  .output_tokens = 6}),
                                            {off, on}, 1);
    CHECK(comparison.outputs_are_equal());
    const engine::EngineStats& without = comparison.variants[0].measurement().stats;
    const engine::EngineStats& with = comparison.variants[1].measurement().stats;
    CHECK(without.prefix_hit_tokens == 0);
    // Two of the three prompts on each clip find its 96 vision tokens in the cache.
    CHECK(with.prefix_hit_tokens == 3 * 2 * 96);
    CHECK(with.prefill_tokens == without.prefill_tokens - with.prefix_hit_tokens);
  }

  TEST_CASE("a profile names every kernel of a step, and is there only when asked for") {
    Bench bench;
    const Variant variant{.name = "x", .group = "x", .options = engine_options(2)};
    const Workload workload = make_fixed_workload(2, 8, 4);
    CHECK(bench.run(workload, {variant}, 1).variants[0].measurement().operations.empty());
    const Comparison comparison = bench.run(workload, {variant}, 1, true);
    CHECK(bench.stream.profile() == nullptr);
    const Measurement& run = comparison.variants[0].measurement();
    struct Case {
      const char* name;
      std::int64_t calls_per_step;
    };
    constexpr Case kCases[] = {{"embedding", 1},       {"norm_linear q, k, v", 2},
                               {"linear_add o", 2},    {"norm_linear_swiglu gate, up", 2},
                               {"linear_add down", 2}, {"linear lm_head", 1},
                               {"rms_norm", 1},        {"rope_kv_write", 2},
                               {"paged_attention", 2}};
    double seconds = 0;
    for (const OperationTime& operation : run.operations) seconds += operation.seconds;
    CHECK(seconds == doctest::Approx(static_cast<double>(run.stats.busy_us) / 1e6).epsilon(0.05));
    for (const Case& c : kCases) {
      CAPTURE(c.name);
      const auto found =
          std::find_if(run.operations.begin(), run.operations.end(),
                       [&](const OperationTime& operation) { return operation.name == c.name; });
      REQUIRE(found != run.operations.end());
      CHECK(found->calls == c.calls_per_step * run.stats.steps);
    }
    const std::string table = to_table({.model = "small", .setting = "bf16"}, comparison);
    CHECK(table.find("time in steps, x") != std::string::npos);
    CHECK(table.find("sampling") != std::string::npos);
  }

  TEST_CASE("outputs of one token have no time of a next one") {
    Bench bench;
    const Variant variant{.name = "x", .group = "x", .options = engine_options(2)};
    const Comparison comparison = bench.run(make_fixed_workload(2, 8, 1), {variant}, 1);
    const std::string table = to_table({.model = "small", .setting = "bf16"}, comparison);
    const std::size_t row = table.find("next token p50, ms");
    CHECK(table.substr(row, table.find('\n', row) - row).ends_with("  -"));
    const JsonObject json = JsonObject::parse(
        to_json({.model = "small", .setting = "bf16"}, comparison), "bench", ErrorCode::kInternal);
    const JsonObject run = json.get_objects("variants").at(0).get_objects("runs").at(0);
    CHECK(run.get_object("next_token_ms")->require_int("count", 0, 9) == 0);
    CHECK(run.get_object("latency_ms")->require_int("count", 0, 9) == 2);
  }

  TEST_CASE("reports hold every variant: a table, JSON that parses, a chart") {
    Bench bench;
    std::vector<Variant> variants;
    for (const std::int32_t batch : {1, 2, 4}) {
      variants.push_back({.name = "continuous " + std::to_string(batch),
                          .group = "continuous",
                          .options = engine_options(batch)});
    }
    const Comparison comparison = bench.run(make_fixed_workload(4, 16, 6), variants, 1);
    const Subject subject{.model = "a \"small\" model", .setting = "bf16"};
    const std::string table = to_table(subject, comparison);
    CHECK(table.find("continuous 4") != std::string::npos);
    CHECK(table.find("share of roofline") != std::string::npos);
    CHECK(table.find("the same tokens in every run") != std::string::npos);

    const JsonObject json =
        JsonObject::parse(to_json(subject, comparison), "bench", ErrorCode::kInternal);
    CHECK(json.get_bool("outputs_are_equal", false));
    const std::vector<JsonObject> results = json.get_objects("variants");
    REQUIRE(results.size() == 3);
    const JsonObject run = results[2].get_objects("runs").at(0);
    CHECK(run.require_int("output_tokens", 0, 1000) == 24);
    CHECK(run.get_object("engine")->require_int("prefill_tokens", 0, 1000) == 64);
    CHECK(run.get_object("latency_ms")->get_double("p99", -1) > 0);

    const LineChart chart = throughput_chart(subject, comparison);
    REQUIRE(!chart.lines.empty());
    CHECK(chart.lines.front().name == "continuous");
    REQUIRE(chart.lines.front().points.size() == 3);
    CHECK(chart.lines.front().points.back().x == 4);
    CHECK(to_svg(chart).ends_with("</svg>\n"));
  }
}

TEST_SUITE("model/random_decoder") {
  TEST_CASE("the same seed gives the same decoder, another seed another") {
    Bench bench;
    const auto hash_with = [&](std::uint64_t seed) {
      bench.decoder =
          model::make_random_decoder(bench.stream, kShape, weights::WeightFormat::kBF16, seed);
      const Variant variant{.name = "x", .group = "x", .options = engine_options(2)};
      return bench.run(make_fixed_workload(2, 8, 12), {variant}, 1)
          .variants.front()
          .measurement()
          .output_hash;
    };
    CHECK(hash_with(1) == hash_with(1));
    CHECK(hash_with(1) != hash_with(2));
  }
}

TEST_SUITE("bench/roofline") {
  TEST_CASE("products are bounded by the rate of their operands") {
    using weights::WeightFormat;
    Roofline machine{.f32_flops_per_s = 1, .flops_per_s = 2, .arithmetic = "bf16"};
    machine.int8_flops_per_s = machine.own_int8_flops_per_s = 4;
    const auto peak = [&](WeightFormat format) { return peak_of(machine, operands_of(format)); };
    CHECK(peak(WeightFormat::kF32).flops_per_s == 1);
    CHECK(peak(WeightFormat::kBF16).flops_per_s == 2);
    CHECK(peak(WeightFormat::kInt8).flops_per_s == 2);
    CHECK(peak(WeightFormat::kNf4).arithmetic == "bf16");
    CHECK(peak(WeightFormat::kW8A8).flops_per_s == 4);
    CHECK(peak(WeightFormat::kW8A8).arithmetic == "8-bit integers");
    CHECK(peak(WeightFormat::kW4A8).flops_per_s == 4);
    machine.own_int4_flops_per_s = 5;
    CHECK(peak(WeightFormat::kW4A8Head4).flops_per_s == 5);
    CHECK(peak(WeightFormat::kW8A8).flops_per_s == 4);
    // Integers that are no faster do not bound products: bf16 would have their place.
    const Roofline slow{.flops_per_s = 2, .int8_flops_per_s = 2, .own_int8_flops_per_s = 1};
    CHECK(peak_of(slow, Operands::k8Bits).flops_per_s == 2);
    CHECK(mean_peak(machine, slow, Operands::k8Bits).flops_per_s == 3);
  }

  TEST_CASE("rates are positive on every tier this CPU runs") {
    ThreadPool pool(2);
    for (const CpuTier tier : supported_cpu_tiers()) {
      CAPTURE(cpu_tier_name(tier));
      Stream stream(pool, tier);
      const Roofline roofline = measure_roofline(stream, kShort);
      CHECK(roofline.read_bytes_per_s > 0);
      CHECK(roofline.f32_flops_per_s > 0);
      CHECK(roofline.flops_per_s >= roofline.f32_flops_per_s);
      CHECK(roofline.int8_flops_per_s >= roofline.flops_per_s);
      CHECK(roofline.int8_flops_per_s >= roofline.own_int8_flops_per_s);
      CHECK((roofline.own_int8_flops_per_s > 0) == (tier != CpuTier::kReference));
      const bool has_dot_products = tier >= CpuTier::kAvx512Bf16 || has_cpu_feature("avxvnni");
      CHECK((roofline.own_int4_flops_per_s > 0) ==
            (tier == CpuTier::kAvx512 || (tier == CpuTier::kAvx2 && !has_dot_products)));
      CHECK(roofline.num_threads == 2);
    }
  }
}

}  // namespace
}  // namespace caption::bench
