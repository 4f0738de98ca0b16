// Every codec, container and stream structure gives the expected frames, whichever way they are
// reached.
#include "video/read_clip.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/video/make_clip.h"

namespace caption::video {
namespace {

using test::ClipSpec;

constexpr SeekMode kModes[] = {SeekMode::kNever, SeekMode::kAlways, SeekMode::kAuto};

// Presentation times, in quarters of a frame, of a film with a variable frame rate.
std::vector<std::int64_t> wandering_pts(int num_frames) {
  std::vector<std::int64_t> pts;
  std::int64_t at = 0;
  for (int i = 0; i < num_frames; ++i) {
    pts.push_back(at);
    at += 2 + (i * 7) % 5 + (i % 17 == 0 ? 40 : 0);
  }
  return pts;
}

// Removes the times of the first pictures of an MPEG transport stream. Source: ISO/IEC 13818-1,
// 2.4.3: packets of 188 bytes, of which some begin a picture's PES packet.
void remove_first_times(std::vector<char>& bytes, int num_pictures) {
  constexpr std::size_t kPacketBytes = 188, kPesHeaderBytes = 9;
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(bytes.at(at)); };
  for (std::size_t at = 0; at + kPacketBytes <= bytes.size() && num_pictures > 0;
       at += kPacketBytes) {
    const bool begins_unit = (byte(at + 1) & 0x40) != 0;
    const bool has_adaptation = (byte(at + 3) & 0x20) != 0;
    const std::size_t pes = at + 4 + (has_adaptation ? 1u + byte(at + 4) : 0u);
    if (!begins_unit || pes + kPesHeaderBytes > at + kPacketBytes || byte(pes + 2) != 1 ||
        byte(pes + 3) != 0xE0) {
      continue;
    }
    bytes[pes + 7] = static_cast<char>(byte(pes + 7) & 0x3F);  // no PTS, no DTS
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(pes + kPesHeaderBytes), byte(pes + 8),
                static_cast<char>(0xFF));  // stuffing
    --num_pictures;
  }
  REQUIRE(num_pictures == 0);
}

// Makes a reader of MP4 skip a box. Source: ISO/IEC 14496-12, 8.1.2.
void remove_box(std::vector<char>& bytes, const std::string& type) {
  const auto at = std::search(bytes.begin(), bytes.end(), type.begin(), type.end());
  REQUIRE(at != bytes.end());
  std::copy_n("free", 4, at);
}

struct Case {
  const char* name;
  ClipSpec spec;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"h264 mp4", {}},
      {"h264 mp4, B-frames", {.b_frames = 3}},
      {"h264 mp4, B-pyramid and open groups",
       {.b_frames = 3, .encoder_options = {{"x264-params", "open-gop=1:b-pyramid=normal"}}}},
      {"h264 mkv, open groups",
       {.muxer = "matroska", .b_frames = 3, .encoder_options = {{"x264-params", "open-gop=1"}}}},
      {"h264 ts, open groups",
       {.muxer = "mpegts", .b_frames = 3, .encoder_options = {{"x264-params", "open-gop=1"}}}},
      {"h264 mp4, one group", {.gop_frames = 600, .b_frames = 2}},
      {"h264 mp4, only keyframes", {.gop_frames = 1}},
      {"h264 mp4, periodic intra refresh",
       {.encoder_options = {{"x264-params", "intra-refresh=1:keyint=12"}}}},
      {"h264 mp4, interlaced", {.b_frames = 2, .encoder_options = {{"x264-params", "tff=1"}}}},
      {"h264 mp4, variable rate", {.b_frames = 2, .quarter_frame_pts = wandering_pts(60)}},
      {"h264 mp4, fragmented",
       {.b_frames = 2, .muxer_options = {{"movflags", "frag_keyframe+empty_moov"}}}},
      {"h264 mp4, edit list", {.b_frames = 2, .cut_frames = 17}},
      {"h264 mp4, index at the start", {.muxer_options = {{"movflags", "faststart"}}}},
      {"h264 mov", {.muxer = "mov", .b_frames = 2}},
      {"h264 mkv", {.muxer = "matroska", .b_frames = 2}},
      {"h264 mkv, variable rate", {.muxer = "matroska", .quarter_frame_pts = wandering_pts(60)}},
      {"h264 mpeg-ts", {.muxer = "mpegts", .b_frames = 2}},
      {"h264 avi", {.muxer = "avi"}},
      {"h264 raw stream", {.muxer = "h264", .b_frames = 2}},
      {"h264 flv", {.muxer = "flv", .b_frames = 2}},
      {"h264 turned by 90", {.rotation_degrees = 90}},
      {"h264 turned by 180", {.rotation_degrees = 180}},
      {"h264 turned by 270", {.rotation_degrees = 270}},
      {"h264 wide pixels", {.sar_num = 4, .sar_den = 3}},
      {"h264 narrow pixels, turned", {.rotation_degrees = 90, .sar_num = 8, .sar_den = 9}},
      {"h264 10 bit", {.b_frames = 2, .pixel_format = "yuv420p10le"}},
      {"h264 4:4:4", {.pixel_format = "yuv444p"}},
      {"h264 full range", {.pixel_format = "yuvj420p", .colour_range = "pc"}},
      {"h264 grows in the middle", {.muxer = "mpegts", .second_width_px = 192}},
      {"h265 mp4", {.encoder = "libx265", .b_frames = 3}},
      {"h265 mp4, open groups",
       {.encoder = "libx265",
        .b_frames = 3,
        .encoder_options = {{"x265-params", "log-level=none:open-gop=1:keyint=12:min-keyint=12"}}}},
      {"h265 raw stream", {.encoder = "libx265", .muxer = "hevc", .b_frames = 2}},
      {"h265 10 bit mkv",
       {.encoder = "libx265", .muxer = "matroska", .pixel_format = "yuv420p10le"}},
      {"h265 mpeg-ts", {.encoder = "libx265", .muxer = "mpegts", .b_frames = 2}},
      {"vp8 webm with hidden frames",
       {.encoder = "libvpx",
        .muxer = "webm",
        .encoder_options = {{"auto-alt-ref", "1"}, {"lag-in-frames", "16"}}}},
      {"vp9 webm with hidden frames",
       {.encoder = "libvpx-vp9",
        .muxer = "webm",
        .encoder_options = {{"auto-alt-ref", "1"}, {"lag-in-frames", "16"}}}},
      {"vp9 mp4", {.encoder = "libvpx-vp9"}},
      {"av1 mp4", {.encoder = "libaom-av1"}},
      {"av1 mkv", {.encoder = "libaom-av1", .muxer = "matroska"}},
      {"mpeg-4 mp4", {.encoder = "mpeg4", .b_frames = 2}},
      {"mpeg-4 avi", {.encoder = "mpeg4", .muxer = "avi", .b_frames = 2}},
      {"mpeg-2 ts", {.encoder = "mpeg2video", .muxer = "mpegts", .b_frames = 2}},
      {"mpeg-2 ps", {.encoder = "mpeg2video", .muxer = "vob", .b_frames = 2}},
      {"ffv1 mkv", {.encoder = "ffv1", .muxer = "matroska"}},
      {"ffv1 gray", {.encoder = "ffv1", .muxer = "matroska", .pixel_format = "gray"}},
      {"ffv1 alpha", {.encoder = "ffv1", .muxer = "matroska", .pixel_format = "yuva420p"}},
      {"motion jpeg avi", {.encoder = "mjpeg", .muxer = "avi", .pixel_format = "yuvj420p"}},
      {"prores mov", {.encoder = "prores_ks", .muxer = "mov", .pixel_format = "yuv422p10le"}},
      {"raw rgb avi", {.encoder = "rawvideo", .muxer = "avi", .pixel_format = "bgr24"}},
      {"raw mov, a palette of grays",
       {.encoder = "rawvideo", .muxer = "mov", .pixel_format = "gray"}},
      {"gif, a palette", {.encoder = "gif", .muxer = "gif", .pixel_format = "rgb8"}},
      {"one frame", {.num_frames = 1}},
      {"fewer frames than wanted", {.num_frames = 5}},
  };
  return all;
}

ReadOptions reading(SeekMode seek, int num_frames, int num_threads) {
  ReadOptions options;
  options.sampling.num_frames = num_frames;
  options.seek = seek;
  options.num_threads = num_threads;
  return options;
}

std::vector<std::int64_t> numbers_of(const Clip& clip) {
  std::vector<std::int64_t> numbers;
  for (const Frame& frame : clip.frames) numbers.push_back(test::frame_number(frame));
  return numbers;
}

// numpy.arange(0, T, T / n).astype(int) for the small numbers of these tests.
std::vector<std::int64_t> arange(int total, int wanted, int first) {
  std::vector<std::int64_t> positions;
  for (int i = 0; i < wanted; ++i) {
    positions.push_back(first + static_cast<int>(i * (static_cast<double>(total) / wanted)));
  }
  return positions;
}

bool same_frames(const Clip& a, const Clip& b) {
  if (a.frames.size() != b.frames.size() || a.total_frames != b.total_frames) return false;
  for (std::size_t i = 0; i < a.frames.size(); ++i) {
    const Frame &x = a.frames[i], &y = b.frames[i];
    if (x.rgb != y.rgb || x.frame_idx != y.frame_idx || x.pts_us != y.pts_us) return false;
  }
  return true;
}

TEST_SUITE("video/read_clip") {
  TEST_CASE("the sampled frames are the right ones, for every codec, container and way to them") {
    const test::TemporaryFolder folder;
    for (const Case& c : cases()) {
      CAPTURE(std::string(c.name));
      const std::string why = test::why_not_available(c.spec);
      if (!why.empty()) {
        MESSAGE("skipped: ", std::string(c.name), ": ", why);
        continue;
      }
      const auto path = folder.path() / "clip";  // no suffix: the content determines the format
      test::make_clip(path, c.spec);
      const int total = c.spec.num_frames - c.spec.cut_frames;
      for (const int wanted : {3, 8}) {
        CAPTURE(wanted);
        const Clip reference = read_clip(path, reading(SeekMode::kNever, wanted, 1));
        CHECK(reference.total_frames == total);
        CHECK(reference.frames_wanted == wanted);
        CHECK(reference.warnings.empty());
        CHECK(numbers_of(reference) == arange(total, wanted, c.spec.cut_frames));
        for (const SeekMode mode : kModes) {
          for (const int num_threads : {1, 3}) {
            CAPTURE(static_cast<int>(mode));
            CAPTURE(num_threads);
            CHECK(same_frames(reference, read_clip(path, reading(mode, wanted, num_threads))));
          }
        }
      }
    }
  }

  TEST_CASE("presentation times come from the stream, from its first frame on") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    ClipSpec spec{.b_frames = 2, .quarter_frame_pts = wandering_pts(60)};
    for (const char* muxer : {"mp4", "mpegts", "matroska"}) {
      CAPTURE(std::string(muxer));
      spec.muxer = muxer;
      test::make_clip(path, spec);
      const Clip clip = read_clip(path, reading(SeekMode::kAuto, 60, 1));
      REQUIRE(clip.frames.size() == 60);
      for (std::size_t i = 0; i < clip.frames.size(); ++i) {
        const double expected_us = static_cast<double>(spec.quarter_frame_pts[i]) * 1e6 / 100.0;
        // Matroska's clock ticks in milliseconds.
        CHECK(std::abs(static_cast<double>(clip.frames[i].pts_us) - expected_us) <= 501.0);
      }
    }
  }

  TEST_CASE("a clip lasts until the end of its last frame") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    for (const char* muxer : {"mp4", "mpegts", "matroska", "avi"}) {
      CAPTURE(std::string(muxer));
      test::make_clip(path, {.muxer = muxer, .num_frames = 50});
      // Matroska stores no duration for the last frame; libav guesses within one frame (2 %).
      CHECK(read_clip(path, {}).duration_us == doctest::Approx(2'000'000).epsilon(0.02));
    }
  }

  TEST_CASE("an MPEG stream lasts as long as its times say, not its codec") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    ClipSpec slow{.muxer = "mpegts", .num_frames = 50};  // H.264 declares 25 frames a second
    for (int i = 0; i < 50; ++i) slow.quarter_frame_pts.push_back(std::int64_t{20} * i);
    test::make_clip(path, slow);
    CHECK(std::abs(read_clip(path, {}).duration_us - 10'000'000) <= 1000);
    // A program stream gives no times to pictures that begin in the packet of another.
    test::make_clip(path, {.muxer = "mpeg",
                           .width_px = 320,
                           .num_frames = 75,
                           .gop_frames = 25,
                           .b_frames = 2,
                           .encoder_options = {{"crf", "40"}}});
    CHECK(std::abs(read_clip(path, {}).duration_us - 3'000'000) <= 1000);
  }

  TEST_CASE("a clip lasts as long, and gives as many frames, in Matroska as in MP4") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    // 4 s; Matroska's milliseconds give the last frame 41 ms.
    for (const char* muxer : {"mp4", "matroska"}) {
      CAPTURE(std::string(muxer));
      test::make_clip(path, {.muxer = muxer, .num_frames = 96, .fps = 24});
      ReadOptions options;
      options.sampling = {.strategy = SamplingStrategy::kQwen3Vl, .num_frames = 16};
      const Clip clip = read_clip(path, options);
      CHECK(clip.duration_us == 4'000'000);
      CHECK(clip.frames.size() == 8);
    }
  }

  TEST_CASE("joined MPEG-TS lasts as long as its parts, and is sampled as one film") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip", part_path = folder.path() / "part";
    constexpr int kPartFrames = 60, kFps = 25;
    constexpr std::int64_t kFrameUs = 1'000'000 / kFps, kHourFrames = 3600 * kFps;
    struct Joint {
      const char* name;
      std::vector<std::int64_t> first_frames;  // start of each part, in frames
      int b_frames = 2;
    };
    const Joint joints[] = {{"starts anew", {0, 0}},
                            {"starts anew between frames of before", {0, 10}},
                            {"an hour later", {0, kHourFrames}},
                            {"an hour earlier", {kHourFrames, 0}},
                            {"an hour later, without B-frames", {0, kHourFrames}, 0},
                            {"three parts", {0, kHourFrames, 0}}};
    for (const Joint& joint : joints) {
      CAPTURE(std::string(joint.name));
      std::vector<char> bytes;
      for (const std::int64_t first : joint.first_frames) {
        ClipSpec spec{.muxer = "mpegts", .num_frames = kPartFrames, .fps = kFps};
        spec.b_frames = joint.b_frames;
        for (std::int64_t i = 0; i < kPartFrames; ++i) {
          // An offset of two quarters of a frame avoids equal times in both parts.
          spec.quarter_frame_pts.push_back(4 * (first + i) + (first == 10 ? 2 : 0));
        }
        test::make_clip(part_path, spec);
        const std::vector<char> part = test::read_bytes(part_path);
        bytes.insert(bytes.end(), part.begin(), part.end());
      }
      test::write_bytes(path, bytes);
      const auto total = kPartFrames * static_cast<int>(joint.first_frames.size());
      for (const SeekMode mode : kModes) {
        CAPTURE(static_cast<int>(mode));
        const Clip clip = read_clip(path, reading(mode, 12, 1));
        CHECK(clip.total_frames == total);
        CHECK(std::abs(clip.duration_us - total * kFrameUs) <= 1000);
        REQUIRE(clip.frames.size() == 12);
        const std::vector<std::int64_t> expected = arange(total, 12, 0);
        for (std::size_t i = 0; i < clip.frames.size(); ++i) {
          const Frame& frame = clip.frames[i];
          CHECK(frame.frame_idx == expected[i]);
          CHECK(test::frame_number(frame) == expected[i] % kPartFrames);
          CHECK(std::abs(frame.pts_us - expected[i] * kFrameUs) <= 1000);
        }
      }
    }
  }

  TEST_CASE("frames whose times are those of decoding are put in order") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    for (const char* encoder : {"mpeg4", "libx264"}) {
      CAPTURE(std::string(encoder));
      test::make_clip(path, {.encoder = encoder, .b_frames = 3});
      std::vector<char> bytes = test::read_bytes(path);
      remove_box(bytes, "ctts");  // what is left are the times of decoding
      remove_box(bytes, "edts");
      test::write_bytes(path, bytes);
      for (const SeekMode mode : kModes) {
        CAPTURE(static_cast<int>(mode));
        const Clip clip = read_clip(path, reading(mode, 15, 1));
        CHECK(numbers_of(clip) == arange(60, 15, 0));
        CHECK(clip.duration_us == 2'400'000);
        for (const Frame& frame : clip.frames) CHECK(frame.pts_us == frame.frame_idx * 40'000);
      }
    }
  }

  TEST_CASE("frames before the first known time precede it by a frame each") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    for (const int b_frames : {0, 2}) {
      test::make_clip(path, {.muxer = "mpegts", .b_frames = b_frames});
      std::vector<char> bytes = test::read_bytes(path);
      remove_first_times(bytes, 5);
      test::write_bytes(path, bytes);
      for (const SeekMode mode : kModes) {
        const Clip clip = read_clip(path, reading(mode, 60, 1));
        CHECK(std::abs(clip.duration_us - 60 * 40'000) <= 1000);
        REQUIRE(clip.frames.size() == 60);
        for (const Frame& frame : clip.frames) {
          CHECK(test::frame_number(frame) == frame.frame_idx);
          CHECK(std::abs(frame.pts_us - frame.frame_idx * 40'000) <= 1000);
        }
      }
    }
  }

  TEST_CASE("a picture that stays on screen for a minute does so, where times cannot jump") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    test::make_clip(path, {.num_frames = 3, .quarter_frame_pts = {0, 4, 4 * 25 * 60}});
    const Clip clip = read_clip(path, reading(SeekMode::kAuto, 3, 1));
    CHECK(clip.frames[2].pts_us == 60'000'000);
  }

  TEST_CASE("sampling by frames per second shows what is on screen at each tick") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    test::make_clip(path, {.num_frames = 60});
    ReadOptions options;
    options.sampling = parse_sampling("fps=2.5", 64);
    const Clip clip = read_clip(path, options);
    CHECK(numbers_of(clip) == std::vector<std::int64_t>{0, 10, 20, 30, 40, 50});
    CHECK(clip.frames_wanted == 6);
    options.sampling = parse_sampling("linspace", 4);
    CHECK(numbers_of(read_clip(path, options)) == std::vector<std::int64_t>{0, 19, 39, 59});
  }

  TEST_CASE("display size follows rotation and sample aspect ratio") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    struct SizeCase {
      int rotation_degrees, sar_num, sar_den, width_px, height_px;
    };
    constexpr SizeCase kSizes[] = {{0, 1, 1, 128, 96},  {90, 1, 1, 96, 128}, {180, 1, 1, 128, 96},
                                   {0, 4, 3, 171, 96},  {0, 8, 9, 128, 108}, {270, 4, 3, 96, 171},
                                   {90, 8, 9, 108, 128}};
    for (const SizeCase& c : kSizes) {
      CAPTURE(c.rotation_degrees);
      CAPTURE(c.sar_num);
      test::make_clip(
          path,
          {.rotation_degrees = c.rotation_degrees, .sar_num = c.sar_num, .sar_den = c.sar_den});
      const Clip clip = read_clip(path, {});
      CHECK(clip.frames[0].width_px == c.width_px);
      CHECK(clip.frames[0].height_px == c.height_px);
      const Probe shown = probe(path);
      CHECK(shown.display_width_px == c.width_px);
      CHECK(shown.display_height_px == c.height_px);
      CHECK(shown.rotation_degrees == c.rotation_degrees);
      CHECK(shown.width_px == 128);
    }
  }

  TEST_CASE("a picture of one pixel and one of 3x5 are read") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    struct SmallSize {
      int width_px, height_px;
    };
    for (const SmallSize& size : {SmallSize{1, 1}, SmallSize{3, 5}}) {
      for (const char* format : {"yuv420p", "yuv444p", "bgr0"}) {
        CAPTURE(size.width_px);
        CAPTURE(std::string(format));
        test::make_clip(path, {.encoder = "ffv1",
                               .muxer = "matroska",
                               .width_px = size.width_px,
                               .height_px = size.height_px,
                               .pixel_format = format});
        const Clip clip = read_clip(path, {});
        CHECK(clip.frames.size() == 8);
        CHECK(clip.frames[7].width_px == size.width_px);
        CHECK(clip.frames[7].height_px == size.height_px);
        CHECK(clip.frames[7].rgb.size() ==
              static_cast<std::size_t>(3 * size.width_px * size.height_px));
      }
    }
  }

  TEST_CASE("probe counts frames without decoding") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    test::make_clip(path, {.muxer = "matroska",
                           .num_frames = 50,
                           .gop_frames = 10,
                           .colour_range = "tv",
                           .colour_matrix = "bt709"});
    const Probe shown = probe(path);
    CHECK(shown.num_frames == 50);
    CHECK(shown.num_keyframes == 5);
    CHECK(shown.container == "matroska,webm");
    CHECK(shown.codec == "h264");
    CHECK(shown.pixel_format == "yuv420p");
    CHECK(shown.colour == "tv bt709");
    CHECK(shown.fps == doctest::Approx(25.0));
    CHECK(shown.file_bytes == static_cast<std::int64_t>(std::filesystem::file_size(path)));
  }
}

}  // namespace
}  // namespace caption::video
