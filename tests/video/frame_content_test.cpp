// classify_content() separates clips that show nothing from clips that show something.
#include "video/frame_content.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tests/video/make_clip.h"
#include "video/internal/content_measures.h"
#include "video/read_clip.h"

namespace caption::video {
namespace {

using test::ClipSpec;

struct Codec {
  const char* encoder;
  const char* muxer;
  std::vector<std::pair<std::string, std::string>> options = {};
};

std::vector<Codec> codecs() {
  return {{"libx264", "mp4"}, {"libx264", "mp4", {{"crf", "35"}}},         {"libx265", "mp4"},
          {"mpeg4", "avi"},   {"libvpx-vp9", "webm", {{"b", "20000000"}}}, {"ffv1", "matroska"}};
}

// Encodes `spec` with every available codec and calls `check` with the decoded clip.
template <class Check>
void for_each_codec(ClipSpec spec, const Check& check) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "clip";
  spec.num_frames = 16;
  spec.width_px = 320;
  spec.height_px = 240;
  spec.gop_frames = 4;
  for (const Codec& codec : codecs()) {
    spec.encoder = codec.encoder;
    spec.muxer = codec.muxer;
    spec.encoder_options = codec.options;
    if (!test::why_not_available(spec).empty()) continue;
    CAPTURE(spec.encoder);
    test::make_clip(path, spec);
    check(read_clip(path, {}).frames);
  }
}

// A frame of one RGB colour.
Frame even_frame(int width_px, int height_px, std::int64_t frame_idx,
                 std::array<std::uint8_t, 3> colour) {
  Frame frame;
  frame.width_px = width_px;
  frame.height_px = height_px;
  frame.frame_idx = frame_idx;
  for (int i = 0; i < width_px * height_px; ++i) {
    frame.rgb.insert(frame.rgb.end(), colour.begin(), colour.end());
  }
  return frame;
}

void paint(Frame& frame, int x, int y, int side_px, std::uint8_t level) {
  for (int dy = 0; dy < side_px; ++dy) {
    const auto first = frame.rgb.begin() + 3 * ((y + dy) * frame.width_px + x);
    std::fill_n(first, 3 * side_px, level);
  }
}

// The largest difference, in levels, between a block of any frame and the same block of the first
// frame.
int largest_change(const std::vector<Frame>& frames) {
  int limit = 0;
  for (const Frame& frame : frames) {
    while (differs(frames[0], frame, limit)) ++limit;
  }
  return limit;
}

TEST_SUITE("video/frame_content") {
  TEST_CASE("even frames are black, white or of one colour, through every codec and range") {
    struct Case {
      std::array<std::uint8_t, 3> yuv;
      const char* range;
      FrameContent expected;
    };
    const Case cases[] = {{{16, 128, 128}, "", FrameContent::kBlack},
                          {{16, 128, 128}, "pc", FrameContent::kBlack},
                          {{0, 128, 128}, "tv", FrameContent::kBlack},
                          {{235, 128, 128}, "", FrameContent::kWhite},
                          {{235, 128, 128}, "pc", FrameContent::kWhite},
                          {{126, 128, 128}, "", FrameContent::kUniform},
                          {{41, 240, 110}, "", FrameContent::kUniform}};
    for (const Case& c : cases) {
      ClipSpec spec;
      spec.solid_yuv = c.yuv;
      spec.colour_range = c.range;
      int deviation = 0;
      for_each_codec(spec, [&](const std::vector<Frame>& frames) {
        CHECK(content_name(classify_content(frames)) == content_name(c.expected));
        for (const Frame& frame : frames) {
          deviation = std::max(deviation, measure_flatness(frame).deviation);
        }
      });
      MESSAGE("Y of " << int{c.yuv[0]} << " " << std::string(c.range) << ": deviation up to "
                      << deviation);
    }
  }

  TEST_CASE("frames of several even colours are uniform") {
    const std::vector<Frame> frames = {even_frame(64, 48, 0, {0, 0, 0}),
                                       even_frame(64, 48, 9, {255, 255, 255})};
    CHECK(classify_content(frames) == FrameContent::kUniform);
  }

  TEST_CASE("noise is noise, through every codec") {
    double near = 0, far = 0, deviation = std::numeric_limits<double>::max();
    for_each_codec({.is_noise = true}, [&](const std::vector<Frame>& frames) {
      CHECK(content_name(classify_content(frames)) == "noise");
      for (const Frame& frame : frames) {
        const Texture texture = measure_texture(frame);
        near = std::max(near, std::abs(texture.near));
        far = std::max(far, std::abs(texture.far));
        deviation = std::min(deviation, texture.deviation);
      }
    });
    MESSAGE("noise: near up to " << near << ", far up to " << far << ", deviation from "
                                 << deviation);
  }

  TEST_CASE("one picture all along is frozen, through every codec") {
    int change = 0;
    for_each_codec({.is_still = true}, [&](const std::vector<Frame>& frames) {
      CHECK(content_name(classify_content(frames)) == "frozen");
      change = std::max(change, largest_change(frames));
    });
    MESSAGE("frozen: blocks change by up to " << change);
    Frame twice = even_frame(64, 48, 5, {0, 0, 0});
    paint(twice, 8, 8, 16, 200);
    CHECK(classify_content(std::vector<Frame>{twice}) == FrameContent::kPicture);
    CHECK(classify_content(std::vector<Frame>{twice, twice}) == FrameContent::kFrozen);
  }

  TEST_CASE("a lamp in the night, a bird in the sky and a change of size are pictures") {
    Frame night = even_frame(1920, 1080, 0, {3, 3, 3});
    paint(night, 700, 300, 16, 60);
    CHECK(classify_content(std::vector<Frame>{night}) == FrameContent::kPicture);
    std::vector<Frame> frames;
    for (int i = 0; i < 4; ++i) {
      Frame& sky = frames.emplace_back(even_frame(1920, 1080, i, {120, 160, 220}));
      for (int y = 0; y < 1080; ++y) {
        std::fill_n(sky.rgb.begin() + 3 * y * 1920, 3 * 1920,
                    static_cast<std::uint8_t>(100 + y / 10));
      }
      paint(sky, 500 + 20 * i, 400, 16, 20);
    }
    CHECK(classify_content(frames) == FrameContent::kPicture);
    const std::vector<Frame> sizes = {frames[0], even_frame(64, 48, 9, {1, 2, 3})};
    CHECK(classify_content(sizes) == FrameContent::kPicture);
    CHECK(classify_content({}) == FrameContent::kPicture);
  }

  TEST_CASE("a frame of one pixel and one of a single row are looked at") {
    CHECK(classify_content(std::vector<Frame>{even_frame(1, 1, 0, {0, 0, 0})}) ==
          FrameContent::kBlack);
    CHECK(classify_content(std::vector<Frame>{even_frame(70, 1, 0, {255, 255, 255})}) ==
          FrameContent::kWhite);
  }

  TEST_CASE("none of the sample videos is called empty") {
    int flattest = 255, stillest = 255;
    double near = 1, far = 1;
    std::size_t num_videos = 0;
    const std::filesystem::path root = CAPTION_SOURCE_DIR;
    for (const auto& entry : std::filesystem::directory_iterator(root / "samples/videos")) {
      CAPTURE(entry.path().string());
      const Clip clip = read_clip(entry.path(), {});
      CHECK(content_name(classify_content(clip.frames)) == "picture");
      int deviation = 0;
      for (const Frame& frame : clip.frames) {
        deviation = std::max(deviation, measure_flatness(frame).deviation);
        near = std::min(near, measure_texture(frame).near);
        far = std::min(far, std::abs(measure_texture(frame).far));
      }
      flattest = std::min(flattest, deviation);
      stillest = std::min(stillest, largest_change(clip.frames));
      ++num_videos;
    }
    CHECK(num_videos > 0);
    MESSAGE(num_videos << " videos: deviation from " << flattest << ", change from " << stillest
                       << ", correlation near from " << near << ", far from " << far);
  }

  TEST_CASE("names and sentences") {
    CHECK(content_name(FrameContent::kFrozen) == "frozen");
    CHECK(content_sentence(FrameContent::kPicture).empty());
    CHECK(content_sentence(FrameContent::kBlack) == "every frame is black");
  }
}

}  // namespace
}  // namespace caption::video
