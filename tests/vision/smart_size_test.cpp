// Sizes of towers that take frames of any size; the golden is made by
// scripts/make_goldens_vision.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "vision/preprocess.h"

namespace caption::vision {
namespace {

PreprocessSpec smart(const SmartResize& resize) {
  return {.smart = resize, .do_center_crop = false};
}

TEST_SUITE("vision/smart_size") {
  TEST_CASE("sizes are the reference's") {
    const JsonObject golden = JsonObject::open(
        CAPTION_SOURCE_DIR "/tests/golden/vision/smart_size.json", ErrorCode::kBadReference);
    for (const JsonObject& c : golden.get_objects("cases")) {
      const std::vector<std::int64_t> in = c.get_ints("in");
      const std::vector<std::int64_t> out = c.get_ints("out");
      const std::vector<std::int64_t> limits = c.get_ints("limits");
      const SmartResize resize = {.unit_px = static_cast<int>(c.require_int("unit", 1, 1000)),
                                  .frames_per_patch = 2,
                                  .min_pixels = limits[0],
                                  .max_pixels = limits[1],
                                  .counts_clip = c.get_bool("counts_clip", true)};
      CAPTURE(in[0]);
      CAPTURE(in[1]);
      const ImageSize size =
          output_size(smart(resize), c.require_int("frames", 1, 100), {in[0], in[1]});
      CHECK(size == ImageSize{out[0], out[1]});
    }
  }

  TEST_CASE("one frame counts as a pair, and a frame below one patch becomes one") {
    const PreprocessSpec spec = smart({.unit_px = 32, .min_pixels = 1, .max_pixels = 1 << 20});
    CHECK(output_size(spec, 1, {320, 640}) == output_size(spec, 2, {320, 640}));
    CHECK(output_size(spec, 8, {3, 5}) == ImageSize{32, 32});
  }

  TEST_CASE("a limit of pixels replaces a model's own") {
    std::optional<SmartResize> resize = SmartResize{.min_pixels = 1024, .max_pixels = 1 << 20};
    set_max_pixels(resize, 4096);
    CHECK(resize == SmartResize{.min_pixels = 1024, .max_pixels = 4096});
    set_max_pixels(resize, 1024);
    CHECK_THROWS_WITH_AS(set_max_pixels(resize, 1023),
                         "--max-pixels is 1023; the model enlarges clips to at least 1024 "
                         "pixels; give at least as many",
                         Error);
    CHECK(resize->max_pixels == 1024);
    std::optional<SmartResize> none;
    CHECK_THROWS_WITH_AS(set_max_pixels(none, 4096), doctest::Contains("leave it out"), Error);
  }

  TEST_CASE("a frame that is too long is refused in one sentence") {
    const PreprocessSpec spec = smart({.unit_px = 32});
    CHECK_NOTHROW(output_size(spec, 2, {2, 400}));
    CHECK_THROWS_WITH_AS(output_size(spec, 2, {2, 402}),
                         "a frame of 402x2 pixels: the model takes frames that are at most 200 "
                         "times as long as wide",
                         Error);
  }
}

}  // namespace
}  // namespace caption::vision
