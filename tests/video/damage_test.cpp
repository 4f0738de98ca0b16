// Damaged and cut-off files give undamaged frames or an Error, the same frames whichever way they
// are reached, and never a crash or a hang.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "tests/video/make_clip.h"
#include "video/read_clip.h"

namespace caption::video {
namespace {

using test::ClipSpec;

// Wall time limit of one read of a few kilobytes on a loaded machine under sanitizers.
constexpr std::int64_t kMaxReadUs = 20'000'000;

// Deterministic, so that a failure can be repeated.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::size_t below(std::size_t limit) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state_ >> 33) % limit;
  }

 private:
  std::uint64_t state_;
};

std::optional<Clip> try_read(const std::filesystem::path& path, SeekMode seek, int num_threads,
                             int num_frames = 8) {
  const Stopwatch watch;
  std::optional<Clip> clip;
  try {
    clip = read_clip(
        path, {.sampling = {.num_frames = num_frames}, .seek = seek, .num_threads = num_threads});
  } catch (const Error& error) {
    CHECK(error.code() != ErrorCode::kInternal);
  }
  CHECK(watch.elapsed_us() < kMaxReadUs);
  return clip;
}

void check_same(const std::optional<Clip>& a, const std::optional<Clip>& b) {
  REQUIRE(a.has_value() == b.has_value());
  if (!a.has_value()) return;
  CHECK(a->total_frames == b->total_frames);
  REQUIRE(a->frames.size() == b->frames.size());
  for (std::size_t i = 0; i < a->frames.size(); ++i) {
    CHECK(a->frames[i].frame_idx == b->frames[i].frame_idx);
    CHECK(a->frames[i].rgb == b->frames[i].rgb);
  }
}

void cut(const std::filesystem::path& path, double share) {
  std::filesystem::resize_file(
      path,
      static_cast<std::uintmax_t>(share * static_cast<double>(std::filesystem::file_size(path))));
}

TEST_SUITE("video/damage") {
  TEST_CASE("a file cut off behind its index is sampled over what is left") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    const ClipSpec specs[] = {
        {.b_frames = 2, .muxer_options = {{"movflags", "faststart"}}},
        {.b_frames = 2, .muxer_options = {{"movflags", "frag_keyframe+empty_moov"}}},
        {.muxer = "matroska", .b_frames = 2},
        {.muxer = "mpegts", .b_frames = 2},
        {.muxer = "avi"},
        {.encoder = "libvpx-vp9", .muxer = "webm"}};
    for (const ClipSpec& spec : specs) {
      CAPTURE(spec.muxer);
      test::make_clip(path, spec);
      cut(path, 0.6);
      const auto clip = try_read(path, SeekMode::kNever, 1);
      REQUIRE(clip.has_value());
      CHECK(clip->total_frames > 10);
      CHECK(clip->total_frames < 60);
      CHECK(clip->frames.size() == 8);
      for (const Frame& frame : clip->frames) {
        CHECK(test::frame_number(frame) == frame.frame_idx);
      }
      check_same(clip, try_read(path, SeekMode::kAlways, 1));
      check_same(clip, try_read(path, SeekMode::kAuto, 3));
    }
  }

  TEST_CASE("a file that ends before the length it declares is told to be cut off") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    // Each clip lasts 4 s. MPEG-TS is not listed because it declares no length.
    const ClipSpec whole_files[] = {
        {.num_frames = 100, .muxer_options = {{"movflags", "faststart"}}},
        {.muxer = "mov", .num_frames = 100, .cut_frames = 30},
        {.muxer = "matroska", .num_frames = 100, .b_frames = 2},
        {.muxer = "avi", .num_frames = 100},
        {.encoder = "mpeg2video", .muxer = "mxf", .num_frames = 100, .b_frames = 2},
        {.encoder = "libvpx-vp9", .muxer = "webm", .num_frames = 100},
        // Two pictures at 0 and 2 s, the second shown for 2 s.
        {.muxer = "matroska", .num_frames = 2, .fps = 1, .quarter_frame_pts = {0, 8}}};
    for (const ClipSpec& spec : whole_files) {
      CAPTURE(spec.muxer);
      CAPTURE(spec.num_frames);
      test::make_clip(path, spec);
      const auto whole = try_read(path, SeekMode::kAuto, 1);
      REQUIRE(whole.has_value());
      CHECK(whole->warnings.empty());
    }
    const std::pair<const char*, const char*> cut_files[] = {
        {"matroska", "libx264"}, {"webm", "libvpx-vp9"}, {"avi", "libx264"}, {"mxf", "mpeg2video"}};
    for (const auto& [muxer, encoder] : cut_files) {
      const ClipSpec spec{.encoder = encoder, .muxer = muxer, .num_frames = 100};
      for (const double share : {0.6, 0.4}) {
        CAPTURE(spec.muxer);
        CAPTURE(share);
        test::make_clip(path, spec);
        cut(path, share);
        const auto clip = try_read(path, SeekMode::kAuto, 1);
        REQUIRE(clip.has_value());
        CAPTURE(clip->total_frames);
        REQUIRE(!clip->warnings.empty());
        CHECK(clip->warnings.back().find("cut off") != std::string::npos);
      }
    }
  }

  TEST_CASE("a file cut off before its index is no video") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip.mp4";
    test::make_clip(path, {});  // MP4 writes its index at the end
    cut(path, 0.6);
    CHECK_THROWS_WITH_AS(read_clip(path, {}),
                         (path.string() + ": not a video that libav can open, or cut off before "
                                          "its index (Invalid data found when processing input)")
                             .c_str(),
                         Error);
  }

  TEST_CASE("damaged frames are left out and told, the others are whole") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    test::make_clip(path, {.num_frames = 120, .gop_frames = 6});
    std::vector<char> bytes = test::read_bytes(path);
    // Zeros a range in the middle of the coded pictures (the index is at the end of the file).
    const std::size_t begin = bytes.size() * 2 / 5;
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.size() / 10, '\0');
    test::write_bytes(path, bytes);
    const auto clip = try_read(path, SeekMode::kNever, 1, 60);
    REQUIRE(clip.has_value());
    CHECK(clip->frames_wanted == 60);
    CHECK(clip->frames.size() < 60);
    CHECK(clip->frames.size() > 30);
    CHECK(!clip->warnings.empty());
    int num_wrong = 0;
    for (const Frame& frame : clip->frames) {
      if (test::frame_number(frame) != frame.frame_idx) ++num_wrong;
    }
    CHECK(num_wrong <= 3);  // one group may be predicted from a concealed picture
    for (const int num_threads : {1, 3}) {
      check_same(clip, try_read(path, SeekMode::kNever, num_threads, 60));
      check_same(clip, try_read(path, SeekMode::kAlways, num_threads, 60));
      check_same(clip, try_read(path, SeekMode::kAuto, num_threads, 60));
    }
  }

  TEST_CASE("a stream without one whole frame is refused") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    test::make_clip(path, {});
    std::vector<char> bytes = test::read_bytes(path);
    const std::string_view mark = "mdat", index = "moov";
    const auto data = std::search(bytes.begin(), bytes.end(), mark.begin(), mark.end());
    const auto end = std::search(data, bytes.end(), index.begin(), index.end());
    REQUIRE(end != bytes.end());
    std::fill(data + 4, end - 4, '\x55');
    test::write_bytes(path, bytes);
    try {
      read_clip(path, {});
      FAIL("frames out of nothing");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kNoFrames);
      CHECK(std::string(error.what()).find("codec h264") != std::string::npos);
    }
  }

  TEST_CASE("a larger picture in the middle of a stream does not pass the limit") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    test::make_clip(path, {.muxer = "mpegts", .second_width_px = 256});
    const ReadOptions options{.limits = {.max_pixels = 128 * 96}};
    const Clip clip = read_clip(path, options);
    CHECK(clip.frames.size() == 4);
    CHECK(clip.frames_wanted == 8);
    CHECK(clip.frames.back().frame_idx < 30);
  }

  TEST_CASE("a frame that is no keyframe, though the index says so, is not where decoding begins") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip.mp4";
    const ClipSpec specs[] = {{.num_frames = 24, .gop_frames = 8},
                              {.encoder = "libx265", .num_frames = 24, .gop_frames = 8}};
    for (const ClipSpec& spec : specs) {
      CAPTURE(spec.encoder);
      if (!test::why_not_available(spec).empty()) continue;
      test::make_clip(path, spec);
      std::vector<char> bytes = test::read_bytes(path);
      // The sync sample box: its name, version and flags, a count, and the 1-based numbers of the
      // keyframes, 4 bytes each.
      const std::string_view name = "stss";
      const auto box = std::search(bytes.begin(), bytes.end(), name.begin(), name.end());
      REQUIRE(bytes.end() - box >= 20);
      REQUIRE(box[19] == 9);
      box[19] = 6;
      test::write_bytes(path, bytes);
      const auto clip = try_read(path, SeekMode::kNever, 1);
      REQUIRE(clip.has_value());
      CHECK(clip->frames.size() == 8);
      for (const Frame& frame : clip->frames) CHECK(test::frame_number(frame) == frame.frame_idx);
      check_same(clip, try_read(path, SeekMode::kAlways, 1));
      check_same(clip, try_read(path, SeekMode::kAuto, 2));
    }
  }

  TEST_CASE("a file whose edit list hides every frame is refused") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip.mp4";
    test::make_clip(path, {.num_frames = 24, .gop_frames = 24});
    std::vector<char> bytes = test::read_bytes(path);
    // The edit list box: its name, version and flags, a count, then duration and start; 4 bytes
    // each.
    const std::string_view name = "elst";
    const auto box = std::search(bytes.begin(), bytes.end(), name.begin(), name.end());
    REQUIRE(bytes.end() - box >= 20);
    std::fill_n(box + 12, 4, '\0');
    box[15] = 1;  // a duration of one tick
    std::fill_n(box + 16, 4, '\x7f');
    test::write_bytes(path, bytes);
    for (const SeekMode seek : {SeekMode::kAuto, SeekMode::kAlways, SeekMode::kNever}) {
      try {
        read_clip(path, {.seek = seek});
        FAIL("frames that are hidden");
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kNoFrames);
      }
    }
  }

  TEST_CASE("random damage gives frames or an Error, alike for every way, and never hangs") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    const ClipSpec specs[] = {{.num_frames = 24, .gop_frames = 8, .b_frames = 2},
                              {.muxer = "matroska", .num_frames = 24, .gop_frames = 8},
                              {.muxer = "mpegts", .num_frames = 24, .gop_frames = 8},
                              {.encoder = "mpeg4", .muxer = "avi", .num_frames = 24},
                              {.encoder = "libx265", .num_frames = 24, .gop_frames = 8},
                              {.encoder = "libvpx-vp9", .muxer = "webm", .num_frames = 24},
                              {.encoder = "ffv1", .muxer = "matroska", .num_frames = 8},
                              {.encoder = "libvpx", .muxer = "webm", .num_frames = 24},
                              {.encoder = "mjpeg", .muxer = "avi", .num_frames = 24}};
    constexpr int kVariants = 24;
    Random random(20250201);
    for (const ClipSpec& spec : specs) {
      if (!test::why_not_available(spec).empty()) continue;
      test::make_clip(path, spec);
      const std::vector<char> whole = test::read_bytes(path);
      for (int variant = 0; variant < kVariants; ++variant) {
        CAPTURE(spec.encoder);
        CAPTURE(spec.muxer);
        CAPTURE(variant);
        std::vector<char> bytes = whole;
        const std::size_t num_flips = variant % 4 == 0 ? 1 : 1 + random.below(40);
        for (std::size_t i = 0; i < num_flips; ++i) {
          bytes[random.below(bytes.size())] ^= static_cast<char>(1 << random.below(8));
        }
        if (variant % 3 == 0) bytes.resize(random.below(bytes.size()));
        test::write_bytes(path, bytes);
        const auto reference = try_read(path, SeekMode::kNever, 1);
        check_same(reference, try_read(path, SeekMode::kAlways, 1));
        check_same(reference, try_read(path, SeekMode::kAuto, 2));
      }
    }
  }
}

}  // namespace
}  // namespace caption::video
