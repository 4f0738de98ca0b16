// Lack of memory is reported as such: never as a broken film, never as fewer frames.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <libavutil/mem.h>
}

#include <climits>
#include <cstddef>
#include <exception>
#include <fstream>
#include <string>
#include <thread>
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

  TEST_CASE("memory that is found where a thread's heap has no place is no lack of memory") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    MESSAGE("not tested under sanitizers: a limited address space");
#else
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip";
    test::make_clip(path, {.width_px = 64, .height_px = 48, .num_frames = 6});
    const pid_t child = ::fork();
    if (child == 0) {
      // The thread's stack and its blocks have room, its heap of 64 MB has none.
      std::size_t size_pages = 0;
      std::ifstream("/proc/self/statm") >> size_pages;
      const rlim_t bytes =
          size_pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + (std::size_t{48} << 20);
      const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
      if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(3);
      int outcome = 0;
      std::thread([&] {
        try {
          if (read_clip(path, {}).frames.empty()) outcome = 2;
        } catch (const std::exception&) {
          outcome = 1;
        }
      }).join();
      ::_exit(outcome);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
#endif
  }
}

}  // namespace
}  // namespace caption::video
