// Vision towers that take frames of any size, in pairs.
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"

namespace caption {
namespace {

using testing::CaptionerGolden;

TEST_SUITE("model/vision_encoder") {
  TEST_CASE("images that repeat have the tokens of the first of them") {
    ThreadPool pool(2);
    Stream stream(testing::tested_context(), pool);
    const auto model = CaptionerGolden("qwen3_vl", "untied_f32").open();
    const std::int64_t unit = model->preprocess_spec().smart->unit_px;
    const auto pixels_of = [&](const std::vector<int>& kinds) {  // a kind for each frame
      Tensor pixels(DType::kF32, {std::ssize(kinds), 3, 2 * unit, unit});
      const std::int64_t values = 6 * unit * unit;
      for (std::int64_t i = 0; i < pixels.num_elements(); ++i) {
        const int kind = kinds[static_cast<std::size_t>(i / values)];
        pixels.as<float>()[i] = static_cast<float>((i % values + kind) * 7919 % 509 - 254) / 128;
      }
      return pixels;
    };
    const Tensor repeated = pixels_of({0, 1, 2, 3, 0, 1, 1, 0, 2, 3, 0});
    const Tensor each = pixels_of({0, 1, 2, 3, 1, 0});  // the first four of five different images
    const Tensor last = pixels_of({0});
    const Tensor found =
        testing::to_host(stream, model->encode_frames(stream, repeated.view()).view());
    const Tensor once = testing::to_host(stream, model->encode_frames(stream, each.view()).view());
    const Tensor alone = testing::to_host(stream, model->encode_frames(stream, last.view()).view());
    const std::int64_t values = 2 * found.dim(1);  // numbers of an image
    REQUIRE(found.num_elements() == 6 * values);
    const auto is_equal = [&](std::int64_t image, const Tensor& other, std::int64_t at) {
      return std::memcmp(found.as<float>() + image * values, other.as<float>() + at * values,
                         static_cast<std::size_t>(values) * sizeof(float)) == 0;
    };
    CHECK(is_equal(0, once, 0));
    CHECK(is_equal(1, once, 1));
    CHECK(is_equal(2, once, 0));
    CHECK(is_equal(3, once, 2));
    CHECK(is_equal(4, once, 1));
    CHECK(is_equal(5, alone, 0));
  }
}

}  // namespace
}  // namespace caption
