// The times of frames of which a stream gives only some.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "tests/video/make_clip.h"
#include "video/internal/sampled_frames.h"
#include "video/read_clip.h"

namespace caption::video {
namespace {

constexpr std::int64_t kFrameTicks = 1800;  // 50 frames a second in 1/90000 s

// What sorted() gives for so many frames, of which the times at these positions are known.
struct KnownTime {
  std::size_t position = 0;
  std::int64_t pts = 0;
};
std::vector<std::int64_t> times_of(const std::vector<KnownTime>& known, std::size_t num_frames) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "clip";
  test::make_clip(path, {.muxer = "mpegts", .num_frames = 10, .fps = 50});
  const OpenFile file(path);
  const StopCondition stop(60'000'000, nullptr);
  Input input(file, {.max_pixels = 1 << 20}, stop);
  FrameTimes times(input);
  std::vector<std::int64_t> all(num_frames, AV_NOPTS_VALUE);
  for (const KnownTime& one : known) all.at(one.position) = one.pts;
  for (const std::int64_t pts : all) times.add(pts);
  return times.sorted();
}

TEST_SUITE("video/frame_times") {
  // The end of a program stream of libx264 with -g 250 -bf 3, whose last packet gives its time to
  // two pictures.
  TEST_CASE("a wrong time near the end does not stretch the frames after it") {
    std::vector<KnownTime> known;
    for (const std::size_t i : {0U, 4U, 32U, 34U, 80U, 82U}) {
      known.push_back({i, static_cast<std::int64_t>(i) * kFrameTicks});
    }
    known.push_back({122, 123 * kFrameTicks});
    known.push_back({123, 128 * kFrameTicks});
    known.push_back({128, 128 * kFrameTicks});
    const std::vector<std::int64_t> times = times_of(known, 150);
    REQUIRE(times.size() == 150);
    CHECK(times.back() == 149 * kFrameTicks);
    CHECK(times[140] == 140 * kFrameTicks);
  }

  TEST_CASE("frames after the last time of a part follow at the duration of its frames") {
    constexpr std::int64_t kHour = 3600 * std::int64_t{90'000};
    // The second part, an hour later, has half as many frames a second.
    const std::vector<std::int64_t> times =
        times_of({{0, 0}, {10, 10 * kFrameTicks}, {11, kHour}, {15, kHour + 8 * kFrameTicks}}, 18);
    CHECK(times[11] == 11 * kFrameTicks);
    CHECK(times[15] == 19 * kFrameTicks);
    CHECK(times[17] == 23 * kFrameTicks);
  }

  TEST_CASE("a clip has the declared rate where its frames keep it") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    const auto fps_of = [&](const test::ClipSpec& spec) {
      test::make_clip(path, spec);
      return read_clip(path, {}).fps;
    };
    CHECK(fps_of({.fps = 30}) == 30);
    // The clock counts milliseconds, of which 1/30 s is no whole number.
    CHECK(fps_of({.muxer = "matroska", .fps = 30}) == 30);
    test::ClipSpec uneven{.fps = 30};
    for (int i = 0; i < uneven.num_frames; ++i) uneven.quarter_frame_pts.push_back(4 * i + i % 3);
    CHECK(fps_of(uneven) == 0);
  }
}

}  // namespace
}  // namespace caption::video
