// Tests the rates that bound each format, on hand-made measurements.
#include "config/plan_input.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "bench/roofline.h"
#include "config/pipeline_options.h"
#include "config/run_planner.h"
#include "plan/known_models.h"

namespace caption::config {
namespace {

using weights::WeightFormat;

bench::Roofline measured(double own_int8_flops_per_s) {
  return {.read_bytes_per_s = 10e9,
          .f32_flops_per_s = 50e9,
          .flops_per_s = 100e9,
          .arithmetic = "bf16",
          .int8_flops_per_s = std::max(100e9, own_int8_flops_per_s),
          .own_int8_flops_per_s = own_int8_flops_per_s,
          .num_threads = 2};
}

TEST_SUITE("config/plan_input") {
  TEST_CASE("a format is bounded by the arithmetic of its products") {
    const bench::Roofline roofline = measured(200e9);
    CHECK(host_rates(roofline, WeightFormat::kF32).flops_per_s == 50e9);
    CHECK(host_rates(roofline, WeightFormat::kBF16).flops_per_s == 100e9);
    CHECK(host_rates(roofline, WeightFormat::kInt8).flops_per_s == 100e9);
    const plan::Rates rates = host_rates(roofline, WeightFormat::kW8A8);
    CHECK(rates.flops_per_s == 200e9);
    CHECK(rates.source == "measured here and now on 2 threads, 8-bit integers");
  }

  TEST_CASE("slower products of 8-bit integers are named, absent ones are not") {
    const plan::Rates slower = host_rates(measured(90e9), WeightFormat::kW8A8);
    CHECK(slower.flops_per_s == 100e9);
    CHECK(slower.source ==
          "measured here and now on 2 threads, bf16, because 8-bit integers are not faster "
          "(90.0 GFLOP/s)");
    CHECK(host_rates(measured(0), WeightFormat::kW8A8).source ==
          "measured here and now on 2 threads, bf16");
  }

  TEST_CASE("codes of 4 bits are bounded by products of their own where the tier has faster ones") {
    bench::Roofline roofline = measured(200e9);
    CHECK(host_rates(roofline, WeightFormat::kW4A8).flops_per_s == 200e9);
    roofline.own_int4_flops_per_s = 150e9;
    CHECK(host_rates(roofline, WeightFormat::kW4A8).source ==
          "measured here and now on 2 threads, 8-bit integers");
    roofline.own_int4_flops_per_s = 300e9;
    const plan::Rates rates = host_rates(roofline, WeightFormat::kW4A8);
    CHECK(rates.flops_per_s == 300e9);
    CHECK(rates.source == "measured here and now on 2 threads, 8-bit integers and 4-bit codes");
    CHECK(host_rates(roofline, WeightFormat::kW8A8).flops_per_s == 200e9);
    CHECK(host_rates(roofline, WeightFormat::kInt4).flops_per_s == 100e9);
  }

  TEST_CASE("of several rounds the best of each rate counts") {
    bench::Roofline second = measured(300e9);
    second.own_int4_flops_per_s = 400e9;
    second.read_bytes_per_s = 12e9;
    second.flops_per_s = 60e9;  // disturbed
    second.arithmetic = "f32";
    second.f32_flops_per_s = 60e9;
    for (const bench::Roofline& best :
         {bench::best_of(measured(200e9), second), bench::best_of(second, measured(200e9))}) {
      CHECK(best.read_bytes_per_s == 12e9);
      CHECK(best.f32_flops_per_s == 60e9);
      CHECK(best.flops_per_s == 100e9);
      CHECK(best.arithmetic == "bf16");
      CHECK(best.own_int8_flops_per_s == 300e9);
      CHECK(best.int8_flops_per_s == 300e9);
      CHECK(best.own_int4_flops_per_s == 400e9);
      CHECK(best.num_threads == 2);
    }
  }

  TEST_CASE("GPUs hold the numbers of codes in f32") {
    plan::PlanInput input;
    input.model.parameters.resize(2);
    input.model.parameters[1].codes = weights::StoredCodes{
        .method = "Q4_1",
        .format = MatrixFormat::kInt4,
        .layout = {.group_columns = 32,
                   .has_offsets = true,
                   .numbers = {.scales = DType::kF16, .offsets = DType::kF16}}};
    CHECK(input.model.parameters[1].codes->layout.number_bytes(32, 1) == 4);
    set_card(CudaDevice{}, input);
    CHECK(!input.model.parameters[0].codes);
    CHECK(input.model.parameters[1].codes->layout.number_bytes(32, 1) == 8);
  }

  TEST_CASE("a GPU has the rates of the card that its name means") {
    constexpr std::int64_t kGiB = std::int64_t{1} << 30;
    PlannedRun run;
    run.loaded.preset.name = "mine";
    run.loaded.preset.device.type = DeviceType::kCuda;
    run.found.blueprint = plan::find_known_model("qwen3-0.6b").value();
    run.machine.cuda_devices = {
        {.name = "NVIDIA L4", .compute_major = 8, .compute_minor = 9, .memory_bytes = 20 * kGiB}};
    const plan::PlanInput known = RunPlanner(run, {}).input(config::WeightFormat::kW8A8);
    const plan::Card card = plan::find_card("l4").value();
    CHECK(known.rates.bytes_per_s == card.bytes_per_s);
    CHECK(known.rates.flops_per_s == card.int8_flops_per_s);
    CHECK(known.rates.source == "data sheet of an NVIDIA L4 (24 GB)");
    CHECK(known.memory_bytes == 20 * kGiB);
    run.machine.cuda_devices.front().name = "NVIDIA T1000";
    const auto refusal = [&](const PlanAssumptions& assumed) -> std::string {
      try {
        RunPlanner(run, assumed).input(config::WeightFormat::kBF16);
      } catch (const Error& error) {
        return error.what();
      }
      return {};
    };
    CHECK(refusal({}) ==
          "the bandwidth and FLOP rate of NVIDIA T1000 are not known; give --bandwidth and "
          "--flops");
    CHECK(refusal({.rates_advice = "name a format"}).ends_with("are not known; name a format"));
    CHECK(refusal({.bytes_per_s = 1e9, .flops_per_s = 1e9}).empty());
  }

  TEST_CASE("evicted pages get a quarter of the machine's memory at most, in plans as in runs") {
    constexpr std::int64_t kGiB = std::int64_t{1} << 30;
    Machine machine;
    machine.memory_bytes = 8 * kGiB;
    for (const int ordinal : {0, 1}) {
      machine.cuda_devices.push_back({.name = "L4",
                                      .ordinal = ordinal,
                                      .compute_major = 8,
                                      .compute_minor = 9,
                                      .memory_bytes = 24 * kGiB});
    }
    Preset preset;
    preset.device.type = DeviceType::kCuda;
    preset.engine.prefix_cache = true;
    const auto planned = [&](const std::string& devices, std::int64_t bytes) {
      preset.device.devices = devices;
      preset.engine.kv_host_bytes = bytes;
      plan::PlanInput input;
      input.host_pages_bytes = bytes;
      limit_host_pages(preset, machine, input);
      CHECK(input.host_pages_bytes == host_pages_bytes(preset, machine, devices == "all" ? 2 : 1));
      return input.host_pages_bytes;
    };
    CHECK(planned("first", kGiB) == kGiB);
    CHECK(planned("first", 4 * kGiB) == 2 * kGiB);
    CHECK(planned("all", 4 * kGiB) == kGiB);
    preset.engine.prefix_cache = false;
    CHECK(planned("first", kGiB) == 0);
  }
}

}  // namespace
}  // namespace caption::config
