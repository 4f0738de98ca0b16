// Times, windows and refusals of Qwen2.5-VL; see also captioner_families_test.cpp.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"

namespace caption {
namespace {

using testing::BadCheckpoint;
using testing::CaptionerGolden;

constexpr const char* kFamily = "qwen2_5_vl";

// The positions in time of a prompt's vision tokens, one per image.
std::vector<std::int32_t> times_of(const model::PromptIds& prompt, std::size_t images) {
  const std::size_t per_image = prompt.vision_positions.size() / images;
  std::vector<std::int32_t> times;
  for (std::size_t i = 0; i < images; ++i) {
    const auto at = static_cast<std::size_t>(prompt.vision_positions[i * per_image]);
    times.push_back(prompt.positions[at] -
                    prompt.positions[static_cast<std::size_t>(prompt.vision_positions[0])]);
  }
  return times;
}

TEST_SUITE("model/qwen2_5_vl") {
  TEST_CASE("whole seconds between images move their positions in time") {
    const auto model = CaptionerGolden(kFamily, "untied_f32").open();  // 2 positions per second
    struct Case {
      const char* name;
      std::int64_t duration_us;         // duration of six frames
      std::vector<std::int32_t> times;  // times of three images
    };
    const Case kTimes[] = {{"unknown: two frames per second", 0, {0, 2, 4}},
                           {"less than a second", 2'760'000, {0, 0, 0}},
                           {"a second less one microsecond in the sum", 2'999'999, {0, 2, 4}},
                           {"almost a second", 2'999'900, {0, 0, 0}},
                           {"2.6 seconds", 7'800'000, {0, 4, 8}}};
    for (const Case& c : kTimes) {
      CAPTURE(std::string(c.name));
      const model::ClipShape shape = {.num_frames = 6,
                                      .frame = {.width_px = 70, .height_px = 50},
                                      .times_s = {},
                                      .duration_us = c.duration_us};
      CHECK(times_of(model->build_prompt("", shape), 3) == c.times);
    }
    const model::ClipShape years = {.num_frames = 6,
                                    .frame = {.width_px = 70, .height_px = 50},
                                    .times_s = {},
                                    .duration_us = std::int64_t{1} << 60};
    CHECK_THROWS_WITH_AS(model->build_prompt("", years), doctest::Contains("too far apart"), Error);
  }

  TEST_CASE("a limit of pixels takes the place of the file's") {
    const CaptionerGolden changed(kFamily, "untied_f32"), in_file(kFamily, "untied_f32");
    const auto model = changed.open();
    model->set_max_pixels(3000);
    testing::replace_in_file(in_file.folder() / "video_preprocessor_config.json", "6000", "3000");
    const auto expected = in_file.open();
    CHECK(model->preprocess_spec() == expected->preprocess_spec());
    const model::ClipShape shape = {.num_frames = 4, .frame = {.width_px = 300, .height_px = 200}};
    CHECK(model->vision_tokens(shape) == expected->vision_tokens(shape));
    CHECK(model->vision_tokens(shape) < changed.open()->vision_tokens(shape));
    CHECK(model->build_prompt("", shape).positions == expected->build_prompt("", shape).positions);
    CHECK_THROWS_WITH_AS(model->set_max_pixels(1999), doctest::Contains("at least 2000 pixels"),
                         Error);
  }

  TEST_CASE("images have the same tokens alone and among others, with any threads") {
    constexpr std::int64_t kImages = 40;  // an image has 10 x 18 patches: two passes
    ThreadPool one(1), three(3);
    Stream stream(testing::tested_context(), one), other(testing::tested_context(), three);
    const auto model = CaptionerGolden(kFamily, "all_in_windows").open();
    Tensor pixels(DType::kF32, {2 * kImages, 3, 40, 72});
    for (std::int64_t i = 0; i < pixels.num_elements(); ++i) {
      pixels.as<float>()[i] = static_cast<float>(i * 7919 % 509 - 254) / 128;
    }
    const auto encode = [&](Stream& on, std::int64_t image, std::int64_t count) {
      const ConstView frames = pixels.view().rows(2 * image, 2 * count);
      return testing::to_host(on, model->encode_frames(on, frames).view());
    };
    const Tensor together = encode(stream, 0, kImages);
    REQUIRE(together.dim(0) == kImages * 5 * 9);
    const std::size_t bytes = together.size_bytes() / kImages;
    for (const std::int64_t image : {0, 1, 24, 25, 26, 39}) {
      CAPTURE(image);
      const Tensor alone = encode(other, image, 1);
      REQUIRE(alone.size_bytes() == bytes);
      CHECK(std::memcmp(alone.as<float>(), together.as<float>() + image * alone.num_elements(),
                        bytes) == 0);
    }
  }

  TEST_CASE("what cannot run is refused") {
    constexpr BadCheckpoint kBad[] = {
        {"activation", "config.json", "\"hidden_act\": \"silu\",\n    \"hidden_size\": 48",
         "\"hidden_act\": \"gelu\",\n    \"hidden_size\": 48", ErrorCode::kUnavailable,
         "hidden_act \"gelu\" is not supported by this build; silu is"},
        {"window", "config.json", "\"window_size\": 32", "\"window_size\": 7", ErrorCode::kBadModel,
         "window_size 7 is less than a merged patch, 8 pixels"},
        {"one layer without a list", "config.json", "\"fullatt_block_indexes\":",
         "\"fullatt_block_indexes\": 3, \"unread\":", ErrorCode::kBadModel,
         "fullatt_block_indexes must be a list of layers"},
        {"layers", "config.json", "\"fullatt_block_indexes\": [\n      1",
         "\"fullatt_block_indexes\": [\n      4", ErrorCode::kBadModel,
         "fullatt_block_indexes must ascend and be below depth, 4"},
        {"width", "config.json", "\"out_hidden_size\": 64", "\"out_hidden_size\": 32",
         ErrorCode::kBadModel, "out_hidden_size 32 is not the hidden_size 64 of the decoder"},
        {"sections", "config.json", "\"mrope_section\": [\n        2",
         "\"mrope_section\": [\n        3", ErrorCode::kBadModel, "mrope_section"},
        {"token", "config.json", "\"video_token_id\": 436", "\"video_token_id\": 435",
         ErrorCode::kBadModel, "video_token_id is 435"},
        {"patches", "video_preprocessor_config.json", "\"patch_size\": 4", "\"patch_size\": 5",
         ErrorCode::kBadModel, "patch_size 5"},
    };
    testing::check_refusals(kFamily, "untied_f32", kBad);
  }
}

}  // namespace
}  // namespace caption
