// The uint8 filters equal torchvision's, to the last bit.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/json.h"
#include "tests/vision/synthetic_frame.h"
#include "vision/internal/resize.h"
#include "vision/preprocess.h"

namespace caption {
namespace {

using testing::synthetic_frame;
using vision::Resample;
using vision::resize_antialias;

const std::filesystem::path kGolden =
    std::filesystem::path(CAPTION_SOURCE_DIR) / "tests/golden/vision/resize.json";

Hash128 hash_of(const video::Frame& frame) {
  return hash_bytes(std::as_bytes(std::span(frame.rgb)));
}

video::Frame constant_frame(int height_px, int width_px, std::uint8_t value) {
  video::Frame frame;
  frame.height_px = height_px;
  frame.width_px = width_px;
  frame.rgb.assign(static_cast<std::size_t>(height_px) * static_cast<std::size_t>(width_px) * 3,
                   value);
  return frame;
}

TEST_SUITE("vision/resize") {
  TEST_CASE("equals torchvision's uint8 resize with antialias bit for bit") {
    const JsonObject golden = JsonObject::open(kGolden, ErrorCode::kBadReference);
    const std::vector<JsonObject> cases = golden.get_objects("cases");
    REQUIRE(cases.size() >= 75);
    for (const JsonObject& c : cases) {
      const std::vector<std::int64_t> in = c.get_ints("in");
      const std::vector<std::int64_t> out = c.get_ints("out");
      CAPTURE(c.name());
      const video::Frame frame = synthetic_frame(
          static_cast<int>(in[0]), static_cast<int>(in[1]),
          static_cast<std::uint32_t>(c.require_int("seed", 0, 1000)), c.require_string("kind"));
      const Resample resample =
          c.require_string("filter") == "bilinear" ? Resample::kBilinear : Resample::kBicubic;
      const video::Frame resized =
          resize_antialias(frame, static_cast<int>(out[1]), static_cast<int>(out[0]), resample);
      CHECK(resized.height_px == out[0]);
      CHECK(resized.width_px == out[1]);
      CHECK(hash_of(resized).hex() == c.require_string("hash"));
      const std::vector<std::int64_t> pixels = c.get_ints("pixels");
      if (pixels.empty()) continue;
      CHECK(std::vector<std::int64_t>(resized.rgb.begin(), resized.rgb.end()) == pixels);
    }
  }

  TEST_CASE("every tier gives the bits of the reference tier, on windows too") {
    struct WindowCase {
      int in_height, in_width, out_height, out_width;
      vision::internal::Window window;
    };
    // Sizes that are a multiple of a strip or register, one more and one less; images smaller than
    // a strip.
    constexpr WindowCase kWindows[] = {
        {64, 96, 32, 48, {0, 0, 32, 48}},        {61, 97, 33, 49, {0, 0, 33, 49}},
        {480, 640, 112, 149, {0, 18, 112, 112}}, {40, 300, 17, 100, {1, 3, 15, 90}},
        {18, 700, 90, 35, {20, 30, 3, 5}},       {15, 40, 8, 17, {0, 0, 8, 17}},
        {33, 5, 70, 6, {0, 0, 70, 6}},           {33, 50, 33, 20, {0, 4, 33, 16}},
        {33, 50, 21, 50, {2, 1, 19, 48}}};
    for (const WindowCase& c : kWindows) {
      CAPTURE(c.in_width);
      CAPTURE(c.out_width);
      const vision::internal::Window& w = c.window;
      const std::pair<const char*, Resample> kRuns[] = {{"noise", Resample::kBicubic},
                                                        {"binary", Resample::kBicubic},
                                                        {"noise", Resample::kBilinear}};
      for (const auto& [kind, resample] : kRuns) {
        const video::Frame frame = synthetic_frame(c.in_height, c.in_width, 11, kind);
        const vision::internal::ResizeAxis rows(resample, c.in_height, c.out_height, w.top_px,
                                                w.height_px);
        const vision::internal::ResizeAxis columns(resample, c.in_width, c.out_width, w.left_px,
                                                   w.width_px);
        std::vector<std::uint8_t> want;
        for (const CpuTier tier : supported_cpu_tiers()) {
          CAPTURE(std::string(cpu_tier_name(tier)));
          std::vector<std::uint8_t> got(static_cast<std::size_t>(w.height_px * w.width_px * 3));
          vision::internal::resize_window(vision::internal::filter_loops(tier), frame, rows,
                                          columns, got);
          if (tier == CpuTier::kReference) want = got;
          CHECK(got == want);
        }
      }
    }
  }

  TEST_CASE("a size that stays is copied, and the frame's time and place stay with it") {
    video::Frame frame = synthetic_frame(9, 14, 3, "noise");
    frame.pts_us = 1234;
    frame.frame_idx = 7;
    const video::Frame same = resize_antialias(frame, 14, 9);
    CHECK(same.rgb == frame.rgb);
    CHECK(same.pts_us == 1234);
    CHECK(same.frame_idx == 7);
  }

  TEST_CASE("a constant image stays constant at any size") {
    // Each of an output's weights is rounded by at most half a unit, so a constant image may change
    // by at most one level; 0 stays 0, and 255 is clamped.
    for (const int value : {0, 1, 127, 254, 255}) {
      for (const auto& [height, width] : {std::pair{1, 1}, {3, 50}, {40, 7}, {61, 61}}) {
        CAPTURE(value);
        CAPTURE(height);
        const video::Frame out = resize_antialias(
            constant_frame(20, 30, static_cast<std::uint8_t>(value)), width, height);
        for (const std::uint8_t pixel : out.rgb) REQUIRE(std::abs(pixel - value) <= 1);
        if (value == 0) CHECK(out.rgb == constant_frame(height, width, 0).rgb);
      }
    }
  }

  TEST_CASE("mirroring before or after the resize is the same when the axis is symmetric") {
    const auto mirror = [](video::Frame frame) {
      const auto width = static_cast<std::size_t>(frame.width_px);
      for (std::size_t y = 0; y < static_cast<std::size_t>(frame.height_px); ++y) {
        for (std::size_t x = 0; x < width / 2; ++x) {
          for (std::size_t c = 0; c < 3; ++c) {
            std::swap(frame.rgb[(y * width + x) * 3 + c],
                      frame.rgb[(y * width + width - 1 - x) * 3 + c]);
          }
        }
      }
      return frame;
    };
    // With a power-of-two scale the centres are exact, so the weights are mirrored.
    const video::Frame frame = synthetic_frame(16, 32, 5, "noise");
    CHECK(mirror(resize_antialias(frame, 16, 16)).rgb ==
          resize_antialias(mirror(frame), 16, 16).rgb);
  }

  TEST_CASE("rejects what is no image") {
    const video::Frame frame = constant_frame(2, 2, 9);
    CHECK_THROWS_AS(resize_antialias(frame, 0, 4), Error);
    CHECK_THROWS_AS(resize_antialias(frame, 4, -1), Error);
    video::Frame torn = frame;
    torn.rgb.pop_back();
    CHECK_THROWS_WITH_AS(resize_antialias(torn, 4, 4),
                         doctest::Contains("pixels do not match its size"), Error);
  }
}

}  // namespace
}  // namespace caption
