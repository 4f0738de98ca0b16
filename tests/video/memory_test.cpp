// Lack of memory is reported as such: never as a broken film, never as fewer frames.
#include <doctest/doctest.h>

extern "C" {
#include <libavutil/mem.h>
}

#include <climits>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/video/make_clip.h"
#include "video/read_clip.h"

namespace caption::video {
namespace {

using test::ClipSpec;

// While it lives, libav's allocator refuses blocks of more than max_bytes.
class SmallBlocks {
 public:
  explicit SmallBlocks(std::size_t max_bytes) { av_max_alloc(max_bytes); }
  ~SmallBlocks() { av_max_alloc(INT_MAX); }  // libav's default limit
  SmallBlocks(const SmallBlocks&) = delete;
  SmallBlocks& operator=(const SmallBlocks&) = delete;
};

TEST_SUITE("video/memory") {
  TEST_CASE("a clip for which there is not enough memory is not a broken one") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    const ClipSpec specs[] = {
        {.width_px = 640, .height_px = 480, .num_frames = 6, .b_frames = 2},
        {.encoder = "libx265", .width_px = 640, .height_px = 480, .num_frames = 6},
        {.encoder = "libvpx-vp9",
         .muxer = "webm",
         .width_px = 640,
         .height_px = 480,
         .num_frames = 6},
        {.encoder = "libvpx", .muxer = "webm", .width_px = 640, .height_px = 480, .num_frames = 6},
        {.encoder = "libaom-av1",
         .muxer = "matroska",
         .width_px = 640,
         .height_px = 480,
         .num_frames = 6},
        {.encoder = "mpeg4", .muxer = "avi", .width_px = 640, .height_px = 480, .num_frames = 6},
        {.encoder = "mpeg2video",
         .muxer = "mpegts",
         .width_px = 640,
         .height_px = 480,
         .num_frames = 6},
        {.encoder = "mjpeg",
         .muxer = "avi",
         .width_px = 640,
         .height_px = 480,
         .num_frames = 6,
         .pixel_format = "yuvj420p"},
        {.encoder = "ffv1",
         .muxer = "matroska",
         .width_px = 640,
         .height_px = 480,
         .num_frames = 6},
        {.muxer = "mpegts",
         .width_px = 640,
         .height_px = 480,
         .num_frames = 6,
         .encoder_options = {{"x264-params", "tff=1"}}},
    };
    for (const ClipSpec& spec : specs) {
      CAPTURE(spec.encoder);
      CAPTURE(spec.muxer);
      if (const std::string why = test::why_not_available(spec); !why.empty()) {
        MESSAGE("skipped: ", why);
        continue;
      }
      test::make_clip(path, spec);
      for (const SeekMode seek : {SeekMode::kNever, SeekMode::kAlways}) {
        const Clip whole = read_clip(path, {.seek = seek});
        int num_refusals = 0;
        for (std::size_t max_bytes = 250'000; max_bytes < 1'200'000; max_bytes += max_bytes / 4) {
          CAPTURE(max_bytes);
          const SmallBlocks small(max_bytes);
          try {
            const Clip clip = read_clip(path, {.seek = seek});
            CHECK(clip.frames.size() == whole.frames.size());
            CHECK(clip.warnings.empty());
          } catch (const Error& error) {
            INFO(error.what());
            CHECK(error_code_name(error.code()) == "out_of_memory");
            CHECK(std::string(error.what()).starts_with(path.string()));
            ++num_refusals;
          }
        }
        CHECK(num_refusals > 0);
      }
    }
  }
}

}  // namespace
}  // namespace caption::video
