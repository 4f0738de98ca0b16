// Pixel values equal those of transformers' LlavaNextVideoVideoProcessor, to the last bit.
#include "vision/preprocess.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tests/vision/synthetic_frame.h"

namespace caption {
namespace {

using testing::synthetic_frame;
using vision::PreprocessSpec;

const std::filesystem::path kGolden =
    std::filesystem::path(CAPTION_SOURCE_DIR) / "tests/golden/vision/preprocess.json";

int edge(const JsonObject& size, std::string_view key) {
  return static_cast<int>(size.require_int(key, 1, 4096));
}

PreprocessSpec spec_of(const JsonObject& processor) {
  PreprocessSpec spec;
  spec.do_resize = processor.get_bool("do_resize", true);
  spec.do_center_crop = processor.get_bool("do_center_crop", true);
  spec.do_normalize = processor.get_bool("do_normalize", true);
  constexpr std::int64_t kBilinear = 2;  // PIL.Image.Resampling.BILINEAR
  if (processor.get_int("resample", 3, 0, 5) == kBilinear) {
    spec.resample = vision::Resample::kBilinear;
  }
  if (spec.do_resize) {
    const JsonObject size = *processor.get_object("size");
    if (size.has("shortest_edge")) {
      spec.shortest_edge_px = edge(size, "shortest_edge");
    } else {
      spec.size_px = {edge(size, "height"), edge(size, "width")};
    }
  }
  const JsonObject crop = *processor.get_object("crop_size");
  spec.crop_px = {edge(crop, "height"), edge(crop, "width")};
  for (std::size_t i = 0; i < 3; ++i) {
    spec.mean[i] = static_cast<float>(processor.get_doubles("image_mean")[i]);
    spec.std[i] = static_cast<float>(processor.get_doubles("image_std")[i]);
  }
  return spec;
}

std::vector<std::int64_t> extents(const Tensor& tensor) {
  std::vector<std::int64_t> list;
  for (int axis = 0; axis < tensor.shape().rank(); ++axis) list.push_back(tensor.dim(axis));
  return list;
}

PreprocessSpec square_spec(int edge_px) {
  PreprocessSpec spec;
  spec.shortest_edge_px = edge_px;
  spec.crop_px = {edge_px, edge_px};
  return spec;
}

TEST_SUITE("vision/preprocess") {
  TEST_CASE("equals the reference processor bit for bit, whatever the number of threads") {
    const JsonObject golden = JsonObject::open(kGolden, ErrorCode::kBadReference);
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      Stream stream(pool);
      for (const JsonObject& c : golden.get_objects("cases")) {
        CAPTURE(c.require_string("name"));
        const std::vector<std::int64_t> in = c.get_ints("in");
        const auto seed = static_cast<std::uint32_t>(c.require_int("seed", 0, 1000));
        std::vector<video::Frame> frames;
        for (std::uint32_t i = 0; i < 2; ++i) {
          frames.push_back(
              synthetic_frame(static_cast<int>(in[0]), static_cast<int>(in[1]), seed + i, "waves"));
        }
        const Tensor values =
            vision::preprocess(stream, frames, spec_of(*c.get_object("processor"))).values;
        CHECK(extents(values) == c.get_ints("shape"));
        const std::vector<double> first = c.get_doubles("first");
        for (std::size_t i = 0; i < first.size(); ++i) {
          CHECK(static_cast<double>(values.as<float>()[i]) == first[i]);
        }
        const std::span<const std::byte> bytes(
            reinterpret_cast<const std::byte*>(values.as<float>()), values.size_bytes());
        CHECK(hash_bytes(bytes).hex() == c.require_string("hash"));
      }
    }
  }

  TEST_CASE("frames of different sizes become one tensor") {
    ThreadPool pool(2);
    Stream stream(pool);
    const std::vector<video::Frame> frames = {synthetic_frame(20, 30, 1, "waves"),
                                              synthetic_frame(31, 17, 2, "waves")};
    const Tensor both = vision::preprocess(stream, frames, square_spec(14)).values;
    CHECK(extents(both) == std::vector<std::int64_t>{2, 3, 14, 14});
    for (std::size_t i = 0; i < 2; ++i) {
      const Tensor alone =
          vision::preprocess(stream, std::span(frames).subspan(i, 1), square_spec(14)).values;
      const auto first = static_cast<std::int64_t>(i) * alone.num_elements();
      CHECK(std::equal(alone.as<float>(), alone.as<float>() + alone.num_elements(),
                       both.as<float>() + first));
    }
    PreprocessSpec uncropped = square_spec(14);
    uncropped.do_center_crop = false;
    CHECK_THROWS_WITH_AS(vision::preprocess(stream, frames, uncropped),
                         doctest::Contains("frames of different sizes"), Error);
  }

  TEST_CASE("a strip of a frame costs no more than its crop") {
    // A frame of 1 x 40,000 pixels: resized it would have 4.5 billion pixels, of which 336 x 336
    // are kept.
    ThreadPool pool(1);
    Stream stream(pool);
    const std::vector<video::Frame> frames = {synthetic_frame(1, 40'000, 1, "noise")};
    const Tensor values = vision::preprocess(stream, frames, square_spec(336)).values;
    CHECK(extents(values) == std::vector<std::int64_t>{1, 3, 336, 336});
    PreprocessSpec uncropped = square_spec(336);
    uncropped.do_center_crop = false;
    try {
      vision::preprocess(stream, frames, uncropped);
      FAIL("4.5 billion pixels were accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kTooLarge);
      CHECK(std::string(error.what()).find("40000x1") != std::string::npos);
    }
  }

  // Sizes that smart_resize() of transformers 4.57.6 (models/qwen2_vl/image_processing_qwen2_vl.py)
  // gives with a factor of 28.
  TEST_CASE("limits per frame give the reference's sizes, whatever the number of frames") {
    struct Case {
      vision::ImageSize frame;
      vision::ImageSize wide;    // between 3,136 and 12,845,056 pixels
      vision::ImageSize narrow;  // between 100,352 and 602,112 pixels
    };
    constexpr Case kCases[] = {
        {{720, 1280}, {728, 1288}, {560, 1008}},
        {{1080, 1920}, {1092, 1932}, {560, 1008}},
        {{2160, 3840}, {2156, 3836}, {560, 1008}},
        {{14, 42}, {56, 112}, {196, 560}},
        {{42, 70}, {56, 56}, {252, 420}},
        {{98, 30}, {112, 28}, {588, 196}},
        {{3, 3}, {56, 56}, {336, 336}},
        {{13, 2600}, {28, 812}, {28, 4480}},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.frame.height_px);
      for (const std::int64_t num_frames : {1, 2, 7, 768}) {
        const auto size = [&](std::int64_t min_pixels, std::int64_t max_pixels) {
          return vision::output_size({.smart = vision::SmartResize{.unit_px = 28,
                                                                   .frames_per_patch = 2,
                                                                   .min_pixels = min_pixels,
                                                                   .max_pixels = max_pixels,
                                                                   .counts_clip = false},
                                      .do_center_crop = false},
                                     num_frames, c.frame);
        };
        CHECK(size(3136, 12845056) == c.wide);
        CHECK(size(100352, 602112) == c.narrow);
      }
    }
  }

  TEST_CASE("the content tells pixels, shapes and numbers of frames apart") {
    ThreadPool pool(1);
    Stream stream(pool);
    const auto content = [&](const std::vector<video::Frame>& frames, const PreprocessSpec& spec) {
      return vision::preprocess(stream, frames, spec).content;
    };
    std::vector<video::Frame> frames = {synthetic_frame(16, 16, 1, "waves")};
    const Hash128 before = content(frames, square_spec(8));
    CHECK(content(frames, square_spec(8)) == before);
    CHECK_FALSE(content(frames, square_spec(9)) == before);
    PreprocessSpec wide = square_spec(8);
    wide.crop_px = {8, 10};  // the same pixels in the middle of a larger image
    CHECK_FALSE(content(frames, wide) == before);
    CHECK_FALSE(content({frames[0], frames[0]}, square_spec(8)) == before);
    for (std::size_t i = 0; i < 3 * 40; ++i) frames[0].rgb[i] ^= 0x80;
    CHECK_FALSE(content(frames, square_spec(8)) == before);
  }

  TEST_CASE("rejects a spec that says two things, and no frames at all") {
    ThreadPool pool(1);
    Stream stream(pool);
    const std::vector<video::Frame> frames = {synthetic_frame(4, 4, 1, "noise")};
    CHECK_THROWS_AS(vision::preprocess(stream, {}, square_spec(8)), Error);
    PreprocessSpec both = square_spec(8);
    both.size_px = {8, 8};
    CHECK_THROWS_AS(vision::preprocess(stream, frames, both), Error);
    PreprocessSpec neither;
    CHECK_THROWS_AS(vision::preprocess(stream, frames, neither), Error);
  }
}

}  // namespace
}  // namespace caption
