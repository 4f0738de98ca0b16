// A failed read is reported as such: never as a clip of the part before it, never as a broken film.
//
// The linker replaces every pread() of this program by __wrap_pread (see CMakeLists.txt), so that a
// test can choose which reads fail.
#include <doctest/doctest.h>
#include <sys/types.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/open_file.h"
#include "tests/video/make_clip.h"
#include "video/read_clip.h"

// NOLINTBEGIN(bugprone-reserved-identifier): the linker prescribes these names
extern "C" ssize_t __real_pread(int descriptor, void* bytes, size_t capacity, off_t position);
extern "C" ssize_t __wrap_pread(int descriptor, void* bytes, size_t capacity, off_t position);
// NOLINTEND(bugprone-reserved-identifier)

namespace caption::video {
namespace {

// Describes which reads fail. Reading is single-threaded in these tests.
struct Fault {
  // The unreadable part of the file, [first_byte, end_byte).
  std::int64_t first_byte = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_byte = std::numeric_limits<std::int64_t>::max();
  int nth_call = -1;  // 0-based; this call and all later ones fail; -1: none
  int error_number = EIO;
};

Fault fault;
int num_calls = 0;

// Sets a fault, and removes it in the destructor.
class Faulty {
 public:
  explicit Faulty(const Fault& what) {
    fault = what;
    num_calls = 0;
  }
  ~Faulty() { fault = {}; }
  Faulty(const Faulty&) = delete;
  Faulty& operator=(const Faulty&) = delete;
};

using test::ClipSpec;

// A clip longer than libav's buffer, with groups of pictures that are worth seeking to.
ClipSpec large(ClipSpec spec) {
  spec.is_noise = true;
  spec.width_px = 96;
  spec.height_px = 64;
  spec.num_frames = 24;
  spec.gop_frames = 4;
  spec.b_frames = spec.muxer == "avi" ? 0 : 1;
  return spec;
}

struct Case {
  const char* name;
  ClipSpec spec;
};

std::vector<Case> cases() {
  return {
      {"mp4, index at the end", large({})},
      {"mp4, index at the start", large({.muxer_options = {{"movflags", "faststart"}}})},
      {"mp4, fragmented", large({.muxer_options = {{"movflags", "frag_keyframe+empty_moov"}}})},
      {"mkv", large({.muxer = "matroska"})},
      {"mpeg-ts", large({.muxer = "mpegts"})},
      {"avi", large({.muxer = "avi"})},
      {"mp4 whose frames the decoder counts",
       large({.encoder_options = {{"x264-params", "tff=1"}}})},
  };
}

constexpr SeekMode kModes[] = {SeekMode::kNever, SeekMode::kAlways, SeekMode::kAuto};

// The message of the Error that reading throws, and its code; empty when reading succeeds.
std::string failure(const OpenFile& file, SeekMode seek, ErrorCode& code) {
  try {
    read_clip(file, {.sampling = {.num_frames = 4}, .seek = seek});
  } catch (const Error& error) {
    code = error.code();
    return error.what();
  }
  code = ErrorCode::kInternal;
  return {};
}

void check_fails(const OpenFile& file, SeekMode seek, int error_number) {
  CAPTURE(static_cast<int>(seek));
  ErrorCode code = ErrorCode::kInternal;
  const std::string message = failure(file, seek, code);
  CHECK(error_code_name(code) == "io_error");
  CHECK(message.starts_with(file.path().string() + ": cannot be read at byte "));
  CHECK(message.ends_with(std::strerror(error_number)));
}

}  // namespace
}  // namespace caption::video

ssize_t __wrap_pread(int descriptor, void* bytes, size_t capacity, off_t position) {
  using caption::video::fault;
  const int call = caption::video::num_calls++;
  const bool starts_inside = position >= fault.first_byte && position < fault.end_byte;
  if (starts_inside || (fault.nth_call >= 0 && call >= fault.nth_call)) {
    errno = fault.error_number;
    return -1;
  }
  // Like the system, reads the bytes before the unreadable part.
  if (position < fault.first_byte &&
      static_cast<std::size_t>(fault.first_byte - position) < capacity)
    capacity = static_cast<std::size_t>(fault.first_byte - position);
  return __real_pread(descriptor, bytes, capacity, position);
}

namespace caption::video {
namespace {

TEST_SUITE("video/read_error") {
  TEST_CASE("a part that cannot be read fails the clip, wherever it lies") {
    const test::TemporaryFolder folder;
    constexpr int kErrors[] = {EIO, ESTALE, ENXIO, ETIMEDOUT, ENOTCONN};
    constexpr std::int64_t kSectorBytes = 4096;
    constexpr int kParts = 8;
    for (const Case& c : cases()) {
      CAPTURE(std::string(c.name));
      const auto path = folder.path() / "clip";
      test::make_clip(path, c.spec);
      const OpenFile file(path);
      REQUIRE(file.size_bytes() > 100'000);
      CHECK_NOTHROW(read_clip(file, {}));
      for (int part = 0; part <= kParts; ++part) {
        const std::int64_t at =
            part * (file.size_bytes() - 1) / kParts / kSectorBytes * kSectorBytes;
        CAPTURE(at);
        const int error_number = kErrors[part % std::ssize(kErrors)];
        for (const SeekMode seek : kModes) {
          const Faulty faulty(
              {.first_byte = at, .end_byte = at + kSectorBytes, .error_number = error_number});
          check_fails(file, seek, error_number);
        }
        const Faulty faulty({.first_byte = at, .end_byte = at + kSectorBytes});
        CHECK_THROWS_WITH_AS(
            probe(file), doctest::Contains((path.string() + ": cannot be read at byte ").c_str()),
            Error);
      }
    }
  }

  TEST_CASE("a file that stops being readable fails the clip, whichever read is the first to") {
    const test::TemporaryFolder folder;
    constexpr int kMaxFaults = 6;  // per case, spread over its reads
    for (const Case& c : cases()) {
      CAPTURE(std::string(c.name));
      const auto path = folder.path() / "clip";
      test::make_clip(path, c.spec);
      const OpenFile file(path);
      for (const SeekMode seek : kModes) {
        int num_reads = 0;
        {
          const Faulty healthy(Fault{});
          CHECK_NOTHROW(read_clip(file, {.sampling = {.num_frames = 4}, .seek = seek}));
          num_reads = num_calls;
        }
        REQUIRE(num_reads > 5);
        const int step = 1 + num_reads / kMaxFaults;
        for (int nth = 0; nth < num_reads; nth += step) {
          CAPTURE(nth);
          const Faulty faulty({.nth_call = nth});
          check_fails(file, seek, EIO);
        }
      }
    }
  }

  TEST_CASE("every byte comes through the descriptor, whatever takes the file's name") {
    const test::TemporaryFolder folder;
    for (const Case& c : cases()) {
      CAPTURE(std::string(c.name));
      const auto path = folder.path() / "clip";
      test::make_clip(path, c.spec);
      const Clip expected = read_clip(path, {});
      const OpenFile file(path);
      std::filesystem::remove(path);
      test::make_clip(path, {.num_frames = 9});
      for (const SeekMode seek : kModes) {
        const Clip clip = read_clip(file, {.seek = seek});
        CHECK(clip.total_frames == 24);
        CHECK(clip.path == path.string());
        REQUIRE(clip.frames.size() == expected.frames.size());
        for (std::size_t i = 0; i < clip.frames.size(); ++i) {
          CHECK(clip.frames[i].rgb == expected.frames[i].rgb);
        }
      }
      CHECK(probe(file).num_frames == 24);
      CHECK(probe(path).num_frames == 9);
    }
  }
}

}  // namespace
}  // namespace caption::video
