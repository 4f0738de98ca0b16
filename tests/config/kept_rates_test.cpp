// Tests that rates are read as they were kept, for their machine alone.
#include "config/kept_rates.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "config/plan_input.h"
#include "config/run_planner.h"
#include "plan/known_models.h"

namespace caption::config {
namespace {

namespace fs = std::filesystem;

bench::Roofline rates() {
  return {.read_bytes_per_s = 3.1e10 / 7,  // not a short decimal
          .f32_flops_per_s = 2e11,
          .flops_per_s = 4e11,
          .arithmetic = "bf16",
          .int8_flops_per_s = 8e11,
          .own_int8_flops_per_s = 7e11,
          .own_int4_flops_per_s = 0,
          .num_threads = 2};
}

const RatesKey kKey = {.cpu_model = "Some \"CPU\"", .tier = "avx2", .num_threads = 2};

fs::path new_folder(const char* name) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "kept_rates" / name;
  fs::remove_all(folder);
  return folder;
}

fs::path only_file(const fs::path& folder) {
  fs::directory_iterator files(folder);
  REQUIRE(files != fs::directory_iterator());
  return files->path();
}

TEST_SUITE("config/kept_rates") {
  TEST_CASE("rates are read as they were kept, of the same CPU, tier and threads") {
    const fs::path folder = new_folder("kept") / "a/b";
    CHECK_FALSE(read_rates(folder, kKey));
    keep_rates(folder, kKey, {.read_bytes_per_s = 1});
    keep_rates(folder, kKey, rates());
    const auto kept = read_rates(folder, kKey);
    REQUIRE(kept.has_value());
    CHECK(kept->read_bytes_per_s == rates().read_bytes_per_s);
    CHECK(kept->f32_flops_per_s == rates().f32_flops_per_s);
    CHECK(kept->flops_per_s == rates().flops_per_s);
    CHECK(kept->arithmetic == "bf16");
    CHECK(kept->int8_flops_per_s == rates().int8_flops_per_s);
    CHECK(kept->own_int8_flops_per_s == rates().own_int8_flops_per_s);
    CHECK(kept->own_int4_flops_per_s == 0);
    CHECK(kept->num_threads == 2);
    RatesKey other = kKey;
    other.num_threads = 3;
    CHECK_FALSE(read_rates(folder, other));
    fs::copy_file(only_file(folder), folder / "x");
    keep_rates(folder, other, rates());
    other = kKey;
    other.tier = "avx512";
    CHECK_FALSE(read_rates(folder, other));
    CHECK_FALSE(read_rates("", kKey));
  }

  TEST_CASE("of several processes that begin together the first to write decides") {
    const fs::path folder = new_folder("first");
    bench::Roofline other = rates();
    other.flops_per_s *= 2;
    CHECK(keep_rates(folder, kKey, rates(), KeepRates::kFirst).flops_per_s == 4e11);
    CHECK(keep_rates(folder, kKey, other, KeepRates::kFirst).flops_per_s == 4e11);
    CHECK(keep_rates(folder, kKey, other).flops_per_s == 8e11);
    CHECK(keep_rates(folder, kKey, rates(), KeepRates::kFirst).flops_per_s == 8e11);
    std::ofstream(only_file(folder), std::ios::trunc) << "{";
    CHECK(keep_rates(folder, kKey, rates(), KeepRates::kFirst).flops_per_s == 4e11);
    CHECK(read_rates(folder, kKey).value().flops_per_s == 4e11);
    CHECK(std::distance(fs::directory_iterator(folder), fs::directory_iterator()) == 1);
    CHECK(keep_rates("", kKey, other, KeepRates::kFirst).flops_per_s == 8e11);
  }

  TEST_CASE("a file that is none, or has impossible rates, is measured anew") {
    const fs::path folder = new_folder("broken");
    keep_rates(folder, kKey, rates());
    const fs::path path = only_file(folder);
    bench::Roofline impossible = rates();
    impossible.flops_per_s = 0;
    keep_rates(folder, kKey, impossible);
    CHECK_FALSE(read_rates(folder, kKey));
    for (const char* const text : {"", "{", "[]", "{\"rates\":1}", "{\"rates\":\"1\"}"}) {
      CAPTURE(text);
      std::ofstream(path, std::ios::trunc) << text;
      CHECK_FALSE(read_rates(folder, kKey));
    }
    keep_rates(folder, kKey, rates());
    CHECK(read_rates(folder, kKey).has_value());
    keep_rates(path, kKey, rates());  // no folder: nothing is kept, and nothing fails
    keep_rates("", kKey, rates());
  }

  TEST_CASE("a plan takes kept rates where it may, and keeps those that it measures") {
    PlannedRun run;
    run.machine.cpu_model = "x";
    run.machine.memory_bytes = std::int64_t{64} << 30;
    run.loaded.locations.rates = new_folder("planned");
    run.found.blueprint = plan::find_known_model("qwen3-0.6b").value();
    const RatesKey key = rates_key(run.context, run.loaded.preset, run.machine);
    keep_rates(run.loaded.locations.rates, key, rates());
    RunPlanner kept(run, {.takes_kept_rates = true});
    CHECK(kept.input(WeightFormat::kBF16).rates.flops_per_s == rates().flops_per_s);
    CHECK(kept.input(WeightFormat::kW8A8).rates.flops_per_s == rates().int8_flops_per_s);
    RunPlanner anew(run, {});
    const plan::Rates measured = anew.input(WeightFormat::kBF16).rates;
    CHECK(measured.bytes_per_s != rates().read_bytes_per_s);
    CHECK(read_rates(run.loaded.locations.rates, key).value().read_bytes_per_s ==
          measured.bytes_per_s);
  }
}

}  // namespace
}  // namespace caption::config
