// The model in samples/ end to end on every tier: frames through the tower, prefill, decoding.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/model/support.h"
#include "tests/support/tested_tiers.h"
#include "video/read_clip.h"
#include "vision/preprocess.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;

Greedy caption_of(Stream& stream, model::CaptionModel& model, const video::Clip& clip,
                  const std::string& prompt, std::int64_t count) {
  const Tensor pixels = vision::preprocess(stream.pool(), clip.frames, model.preprocess_spec());
  const Tensor vision = model.encode_frames(stream, pixels.view());
  return run_greedy(stream, model, model.build_prompt(prompt, pixels.dim(0)), vision.view(), count);
}

TEST_SUITE("model/demo_tiers") {
  // Tiers add up in other orders; an activation that falls on the other side of a rounding to 16
  // or 8 bits moves everything behind it, by a few of those roundings.
  TEST_CASE("every tier captions as the reference tier does, with weights of any format") {
    struct Case {
      model::WeightType type;
      std::string name;
      double tolerance;  // of the first logits, which are up to 15 or so
    };
    const Case cases[] = {{model::WeightType::kBF16, "bf16", 0.05},
                          {model::WeightType::kInt8, "int8", 0.05},
                          {model::WeightType::kW8A8, "w8a8", 0.25},
                          {model::WeightType::kInt4, "int4", 0.05},
                          {model::WeightType::kNf4, "nf4", 0.05}};
    // Few, because an emulated AMX tier is a thousand times as slow.
    constexpr int kNumFrames = 2;
    constexpr std::int64_t kNumTokens = 8;
    const fs::path root = CAPTION_SOURCE_DIR;
    const JsonObject golden =
        JsonObject::open(root / "tests/golden/demo/city-000-h264.json", ErrorCode::kBadReference);
    video::ReadOptions options;
    options.sampling.num_frames = kNumFrames;
    const video::Clip clip = video::read_clip(root / golden.require_string("video"), options);
    ThreadPool pool(2);
    for (const Case& c : cases) {
      const auto model = model::open_model(root / "samples/demo-model", c.type);
      std::vector<std::int32_t> ids;
      std::vector<float> first_logits;
      for (const CpuTier tier : TestedTiers()) {
        CAPTURE(c.name);
        CAPTURE(std::string(cpu_tier_name(tier)));
        Stream stream(pool, tier);
        const Greedy got =
            caption_of(stream, *model, clip, golden.require_string("prompt"), kNumTokens);
        if (tier == CpuTier::kReference) {
          ids = got.ids;
          first_logits = got.first_logits;
        }
        CHECK(got.ids == ids);
        CHECK(max_difference(got.first_logits, first_logits) <= c.tolerance);
      }
    }
  }
}

}  // namespace
}  // namespace caption
