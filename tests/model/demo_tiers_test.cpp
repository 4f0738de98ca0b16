// The model in samples/ on every CPU tier: vision tower, prefill and decoding.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
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
  const Tensor pixels = vision::preprocess(stream, clip.frames, model.preprocess_spec()).values;
  const Tensor vision = model.encode_frames(stream, pixels.view());
  return run_greedy(stream, model, model.build_prompt(prompt, {pixels.dim(0)}), vision.view(),
                    count);
}

TEST_SUITE("model/demo_tiers") {
  // Tiers sum in different orders, so an activation may be rounded to a neighbouring 16- or 8-bit
  // value. From a pixel to a logit there are roundings of the inputs of 4 matrices in each of 4
  // layers of the tower and 4 of the decoder, of the 2 of the projector, and of the head. Each has
  // a relative error of up to `rounding`, and they accumulate like independent errors.
  TEST_CASE("every tier captions as the reference tier does, with weights of any format") {
    struct Case {
      weights::WeightFormat type;
      std::string name;
      double rounding;
    };
    constexpr double kBF16 = 1.0 / 512;  // half a unit in the last of 8 bits
    constexpr double kInt8 = 1.0 / 254;  // half a step, relative to the row's largest value
    const double num_roundings = 4 * 4 + 4 * 4 + 2 + 1;
    const Case cases[] = {{weights::WeightFormat::kBF16, "bf16", kBF16},
                          {weights::WeightFormat::kInt8, "int8", kBF16},
                          {weights::WeightFormat::kW8A8, "w8a8", kInt8},
                          {weights::WeightFormat::kW4A8, "w4a8", kInt8},
                          {weights::WeightFormat::kW4A8Head4, "w4a8-head4", kInt8},
                          {weights::WeightFormat::kInt4, "int4", kBF16},
                          {weights::WeightFormat::kInt4Head4, "int4-head4", kBF16},
                          {weights::WeightFormat::kNf4, "nf4", kBF16}};
    // Small numbers, because an emulated AMX tier is a thousand times as slow.
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
      const auto model =
          model::open_model(testing::tested_context(), root / "samples/demo-model", c.type);
      std::vector<std::int32_t> ids;
      std::vector<float> first_logits;
      double tolerance = 0;
      for (const CpuTier tier : TestedTiers()) {
        CAPTURE(c.name);
        CAPTURE(std::string(cpu_tier_name(tier)));
        Stream stream(pool, tier);
        const Greedy got =
            caption_of(stream, *model, clip, golden.require_string("prompt"), kNumTokens);
        if (tier == CpuTier::kReference) {
          ids = got.ids;
          first_logits = got.first_logits;
          const auto largest = std::max_element(first_logits.begin(), first_logits.end());
          tolerance = std::sqrt(num_roundings) * c.rounding * *largest;
        }
        CHECK(got.ids == ids);
        CHECK(max_difference(got.first_logits, first_logits) <= tolerance);
      }
    }
  }
}

}  // namespace
}  // namespace caption
