// The whole pipeline on the mirror device (backend/mirror.h): pixels, vision tokens, cached vision
// tokens and pages cross between host and device, and captions have the bits of the CPU's.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "model/caption_model.h"
#include "tests/pipeline/fake_model.h"

namespace caption::pipeline {
namespace {

namespace fs = std::filesystem;

struct Ran {
  std::vector<records::Record> records;
  Outcome outcome;
};

Ran run_on(Device device, const fs::path& cache) {
  const fs::path root = CAPTION_SOURCE_DIR;
  const Context context{.device = device, .num_threads = 2};
  const auto model =
      model::open_model(context, root / "samples/demo-model", weights::WeightFormat::kBF16);
  std::vector<std::pair<std::string, Origin>> paths;
  for (const char* name : {"city-000-h264.mp4", "bridge-006-h264.mp4"}) {
    paths.emplace_back((root / "samples/videos" / name).string(), Origin::kNamed);
    REQUIRE(fs::exists(paths.back().first));
  }
  Options options;
  options.threads = {.decode = 1, .vision = 1, .engine = 1};
  options.read.sampling.num_frames = 4;
  options.prompts = {{.name = "", .text = ""}};
  options.engine.kv_cache_bytes = 4 << 20;
  options.engine.kv_dtype = DType::kBF16;
  options.engine.prefix_cache = engine::PrefixCache::kOn;
  options.engine.disk.folder = cache;
  options.sampling.max_new_tokens = 24;
  options.vision_cache = {.folder = cache, .max_bytes = 64 << 20, .identity = {1, 2}};
  KeepingSink sink;
  Outcome outcome = run(*model, list_of(paths), options, sink);
  CHECK(outcome.ending == Ending::kFinished);
  return {.records = std::move(sink.kept), .outcome = std::move(outcome)};
}

TEST_SUITE("pipeline/mirror") {
  TEST_CASE("captions are the CPU's, with empty caches and with full ones") {
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "mirror";
    fs::remove_all(folder);
    const std::vector<records::Record> expected = run_on(Device::kCpu, folder / "cpu").records;
    REQUIRE(expected.size() == 2);
    for (const bool finds_caches : {false, true}) {
      CAPTURE(finds_caches);
      const Ran ran = run_on(Device::kMirror, folder / "mirror");
      CHECK(ran.outcome.clips_seen_before == (finds_caches ? 2 : 0));
      CHECK((ran.outcome.engine.disk_hit_tokens > 0) == finds_caches);
      REQUIRE(ran.records.size() == 2);
      for (const records::Record& record : ran.records) {
        const bool is_first = record.video == expected[0].video;
        CHECK_FALSE(record.caption.empty());
        CHECK(record.caption == expected[is_first ? 0 : 1].caption);
      }
    }
  }
}

}  // namespace
}  // namespace caption::pipeline
