// Converts known YUV values and compares the RGB with the formulas of the standards.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>

#include "tests/video/make_clip.h"
#include "video/read_clip.h"

namespace caption::video {
namespace {

using Triple = std::array<std::uint8_t, 3>;

// ITU-T H.273 §8.3: kr, kb of each matrix; ranges for 8 bits.
std::array<double, 3> rgb_of(const Triple& yuv, double kr, double kb, bool is_full_range) {
  const double y = is_full_range ? yuv[0] / 255.0 : (yuv[0] - 16.0) / 219.0;
  const double chroma_range = is_full_range ? 255.0 : 224.0;
  const double cb = (yuv[1] - 128.0) / chroma_range, cr = (yuv[2] - 128.0) / chroma_range;
  const double r = y + 2 * (1 - kr) * cr, b = y + 2 * (1 - kb) * cb;
  const double g = (y - kr * r - kb * b) / (1 - kr - kb);
  std::array<double, 3> rgb = {r, g, b};
  for (double& value : rgb) value = std::clamp(255.0 * value, 0.0, 255.0);
  return rgb;
}

constexpr Triple kColours[] = {{16, 128, 128}, {235, 128, 128}, {126, 128, 128}, {81, 90, 240},
                               {145, 54, 34},  {41, 240, 110},  {180, 100, 150}, {60, 150, 110}};

struct Matrix {
  const char* name;  // libav's name in the file; empty: unspecified
  double kr, kb;     // expected coefficients
  int height_px;
  ColorMatrix untagged = ColorMatrix::kAuto;
};
constexpr Matrix kMatrices[] = {{"smpte170m", 0.299, 0.114, 96},
                                {"bt470bg", 0.299, 0.114, 96},
                                {"bt709", 0.2126, 0.0722, 96},
                                {"bt2020nc", 0.2627, 0.0593, 96},
                                {"", 0.299, 0.114, 96},
                                {"", 0.299, 0.114, 720},
                                {"", 0.299, 0.114, 720, ColorMatrix::kBt601},
                                {"", 0.2126, 0.0722, 96, ColorMatrix::kBt709},
                                {"", 0.2126, 0.0722, 720, ColorMatrix::kBt709},
                                {"bt709", 0.2126, 0.0722, 720, ColorMatrix::kBt601},
                                {"smpte170m", 0.299, 0.114, 720, ColorMatrix::kBt709}};

TEST_SUITE("video/colour") {
  TEST_CASE("matrix and range are honoured; the option is for files that name no matrix") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    for (const Matrix& matrix : kMatrices) {
      for (const char* range : {"tv", "pc", ""}) {
        for (const char* format : {"yuv420p", "yuv444p", "yuv420p10le"}) {
          for (const Triple& yuv : kColours) {
            test::make_clip(path, {.encoder = "ffv1",
                                   .muxer = "matroska",
                                   .width_px = 64,
                                   .height_px = matrix.height_px,
                                   .num_frames = 1,
                                   .pixel_format = format,
                                   .colour_range = range,
                                   .colour_matrix = matrix.name,
                                   .solid_yuv = yuv});
            const Clip clip =
                read_clip(path, {.sampling = {.num_frames = 1}, .color_matrix = matrix.untagged});
            const auto expected = rgb_of(yuv, matrix.kr, matrix.kb, std::string(range) == "pc");
            CAPTURE(std::string(matrix.name));
            CAPTURE(matrix.height_px);
            CAPTURE(static_cast<int>(matrix.untagged));
            CAPTURE(std::string(range));
            CAPTURE(std::string(format));
            CAPTURE(static_cast<int>(yuv[0]));
            CAPTURE(static_cast<int>(yuv[1]));
            const Frame& frame = clip.frames[0];
            const std::size_t middle = frame.rgb.size() / 6 * 3;
            for (std::size_t c = 0; c < 3; ++c) {
              CAPTURE(c);
              // libswscale's tables have 8 bits: two roundings, each of up to one level.
              CHECK(std::abs(frame.rgb[middle + c] - expected[c]) <= 2.0);
            }
          }
        }
      }
    }
  }

  TEST_CASE("gray is full range") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    for (const int gray : {0, 16, 100, 235, 255}) {
      const auto level = static_cast<std::uint8_t>(gray);
      test::make_clip(path, {.encoder = "ffv1",
                             .muxer = "matroska",
                             .num_frames = 1,
                             .pixel_format = "gray",
                             .solid_yuv = Triple{level, 0, 0}});
      const Clip clip = read_clip(path, {.sampling = {.num_frames = 1}});
      for (std::size_t c = 0; c < 3; ++c) CHECK(std::abs(clip.frames[0].rgb[c] - gray) <= 1);
    }
  }
}

}  // namespace
}  // namespace caption::video
