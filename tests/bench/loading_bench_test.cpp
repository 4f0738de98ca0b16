// Tests the benchmark of loading on the demonstration model. No times are compared.
#include "bench/loading_bench.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "model/model_files.h"

namespace caption::bench {
namespace {

namespace fs = std::filesystem;

const fs::path kModel = fs::path(CAPTION_SOURCE_DIR) / "samples/demo-model";

TEST_SUITE("bench/loading_bench") {
  TEST_CASE("a model is opened as often as passes and the disk ask for") {
    const std::vector<fs::path> files = model::read_weight_files(kModel).paths;
    REQUIRE(files == std::vector<fs::path>{kModel / "model.safetensors"});
    const Context context{.num_threads = 2};
    int opened = 0;
    std::int64_t weight_bytes = 0;
    const auto open = [&] {
      ++opened;
      auto model = model::open_model(context, kModel, weights::WeightFormat::kBF16);
      weight_bytes = model->weight_bytes();
      return model;
    };
    const LoadingBench bench = bench_loading(context, files, open, {.repeat = 3});
    CHECK(opened == 3 + 3);
    CHECK(bench.weight_bytes == weight_bytes);
    CHECK(bench.file_bytes == static_cast<std::int64_t>(fs::file_size(files.front())));
    for (const double seconds :
         {bench.cached_read_s, bench.cached_copy_s, bench.cached_load_s, bench.disk_read_s,
          bench.disk_load_s, bench.copy_processor_s, bench.load_processor_s}) {
      CHECK(seconds > 0);
    }
    const JsonObject json =
        JsonObject::parse(to_json("demo", bench), "report", ErrorCode::kInternal);
    CHECK(json.require_int("file_bytes", 1, 1 << 30) == bench.file_bytes);
    CHECK(json.get_double("share_of_disk", 0) == bench.share_of_disk());
    CHECK(to_table("demo", bench).find("page cache: model opened") != std::string::npos);
  }

  TEST_CASE("a file that is not there is named") {
    const auto open = [] { return std::unique_ptr<model::CaptionModel>(); };
    CHECK_THROWS_WITH_AS(bench_loading({}, {"/nowhere/model.safetensors"}, open, {.repeat = 1}),
                         doctest::Contains("/nowhere/model.safetensors"), Error);
  }
}

}  // namespace
}  // namespace caption::bench
