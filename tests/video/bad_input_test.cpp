// Files that are not videos, or that are not supported: each gives one Error, and nothing is
// decoded.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "tests/video/make_clip.h"
#include "video/read_clip.h"

namespace caption::video {
namespace {

std::vector<char> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

// The code of the Error that read_clip() throws; kInternal when it throws none.
ErrorCode code_of(const std::filesystem::path& path, const ReadOptions& options = {}) {
  try {
    read_clip(path, options);
  } catch (const Error& error) {
    INFO(error.what());
    CHECK(std::string(error.what()).find(path.string()) != std::string::npos);
    return error.code();
  }
  return ErrorCode::kInternal;
}

// Overwrites the frame size in the sample entry of an H.264 MP4 (ISO/IEC 14496-12 §12.1.3).
void declare_size(const std::filesystem::path& path, int width_px, int height_px) {
  constexpr std::ptrdiff_t kSizeOffset = 28;
  std::vector<char> bytes = test::read_bytes(path);
  const std::string_view entry("avc1\0\0\0\0\0\0", 10);
  auto at = std::search(bytes.begin(), bytes.end(), entry.begin(), entry.end());
  REQUIRE(at != bytes.end());
  at += kSizeOffset;
  for (const int side : {width_px, height_px}) {
    *at++ = static_cast<char>(side >> 8);
    *at++ = static_cast<char>(side & 0xff);
  }
  test::write_bytes(path, bytes);
}

TEST_SUITE("video/bad_input") {
  TEST_CASE("what is no video is refused with its reason") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip.mp4";
    const auto video = folder.path() / "real.mp4";
    test::make_clip(video, {});
    struct Case {
      const char* name;
      std::function<void()> make;
      ErrorCode code;
    };
    const std::vector<Case> cases = {
        {"missing", [] {}, ErrorCode::kNotFound},
        {"a folder", [&] { std::filesystem::create_directory(path); }, ErrorCode::kNotRegularFile},
        {"a FIFO", [&] { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }, ErrorCode::kNotRegularFile},
        {"empty", [&] { test::write_bytes(path, {}); }, ErrorCode::kNotVideo},
        {"HTML",
         [&] { test::write_bytes(path, bytes_of("<!DOCTYPE html><html><body>404</body></html>")); },
         ErrorCode::kNotVideo},
        {"text", [&] { test::write_bytes(path, bytes_of("no video at all\n")); },
         ErrorCode::kNotVideo},
        {"zeros", [&] { test::write_bytes(path, std::vector<char>(100'000)); },
         ErrorCode::kNotVideo},
        {"a still picture",
         [&] {
           test::make_clip(
               path,
               {.encoder = "png", .muxer = "image2pipe", .num_frames = 1, .pixel_format = "rgb24"});
         },
         ErrorCode::kNotVideo},
        {"a playlist",
         [&] {
           test::write_bytes(path, bytes_of("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n" +
                                            video.string() + "\n#EXT-X-ENDLIST\n"));
         },
         ErrorCode::kNotVideo},
        {"a list of videos",
         [&] { test::write_bytes(path, bytes_of("ffconcat version 1.0\nfile real.mp4\n")); },
         ErrorCode::kNotVideo},
        {"sound only", [&] { test::make_audio(path, test::Cover::kNone); },
         ErrorCode::kNoVideoStream},
        {"sound with a cover", [&] { test::make_audio(path, test::Cover::kPicture); },
         ErrorCode::kNoVideoStream},
    };
    for (const Case& c : cases) {
      CAPTURE(std::string(c.name));
      std::filesystem::remove_all(path);
      c.make();
      CHECK(error_code_name(code_of(path)) == error_code_name(c.code));
      CHECK_THROWS_AS(probe(path), Error);
    }
  }

  TEST_CASE("an encrypted video is refused as such") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip.mp4";
    const std::string key = "00112233445566778899aabbccddeeff";
    test::make_clip(path, {.muxer_options = {{"encryption_scheme", "cenc-aes-ctr"},
                                             {"encryption_key", key},
                                             {"encryption_kid", key}}});
    CHECK(error_code_name(code_of(path)) == error_code_name(ErrorCode::kNoFrames));
    const std::string expected = path.string() + ": the video is encrypted; decrypt it first";
    CHECK_THROWS_WITH_AS(read_clip(path, {}), expected.c_str(), Error);
    CHECK(probe(path).num_frames == 60);
  }

  TEST_CASE("a list of other media is refused with its kind") {
    const test::TemporaryFolder folder;
    struct Case {
      const char* name;
      const char* text;
      const char* kind;
    };
    const Case cases[] = {
        {"a.m3u8", "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nb.mp4\n#EXT-X-ENDLIST\n",
         "an M3U playlist"},
        {"a.mp4", "\xEF\xBB\xBF#EXTM3U\n#EXTINF:2,Title\nb.mp4\n", "an M3U playlist"},
        {"plain.m3u", "b.mp4\nc.mp4\n", "an M3U playlist"},
        {"a", "ffconcat version 1.0\nfile b.mp4\n", "a list of FFmpeg's concat demuxer"},
        {"a.sdp", "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nt=0 0\nm=video 5004 RTP/AVP 96\n",
         "a description of a network stream (SDP)"},
        {"a.pls", "[playlist]\nFile1=b.mp4\nNumberOfEntries=1\n", "a PLS playlist"},
        {"manifest", "<?xml version=\"1.0\"?>\n<MPD type=\"static\"></MPD>", "a DASH manifest"},
    };
    for (const Case& c : cases) {
      const auto path = folder.path() / c.name;
      test::write_bytes(path, bytes_of(c.text));
      const std::string expected = path.string() + ": is " + c.kind +
                                   ", not a video; name the video files that it refers to";
      CHECK_THROWS_WITH_AS(probe(path), expected.c_str(), Error);
    }
    // A binary file and other text are none, whatever they are called or hold.
    for (const char* text : {"#EXTM3 no list\n", "v=0 alone\n", "<html><mpd></html>"}) {
      test::write_bytes(folder.path() / "text", bytes_of(text));
      CHECK_THROWS_WITH_AS(probe(folder.path() / "text"), doctest::Contains("libav can open"),
                           Error);
    }
    test::write_bytes(folder.path() / "zeros.m3u8", std::vector<char>(1000));
    CHECK_THROWS_WITH_AS(probe(folder.path() / "zeros.m3u8"), doctest::Contains("libav can open"),
                         Error);
  }

  TEST_CASE("an unreadable file is refused") {
    if (::geteuid() == 0) {
      MESSAGE("skipped: root may read every file; run the tests as another user to see this one");
      return;
    }
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip.mp4";
    test::make_clip(path, {.num_frames = 1});
    std::filesystem::permissions(path, std::filesystem::perms::none);
    CHECK(code_of(path) == ErrorCode::kUnreadable);
  }

  TEST_CASE("any file name does") {
    const test::TemporaryFolder folder;
    for (const char* name : {"\xff\xfe\x80.mp4", "-i.mp4", "a:b.mp4", "http:__host_clip.mp4",
                             "%03d.mp4", "pipe:0", "한국어 영상.mp4", "new\nline"}) {
      const auto path = folder.path() / name;
      test::make_clip(path, {});
      CHECK(read_clip(path, {}).frames.size() == 8);
      CHECK(read_clip(path, {}).path == path.string());
    }
  }

  TEST_CASE("a picture beyond the limit is refused before it is decoded") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip.mp4";
    test::make_clip(path, {});
    declare_size(path, 16000, 12000);
    CHECK_THROWS_WITH_AS(read_clip(path, {}),
                         (path.string() + ": a frame is 16000x12000, 192000000 pixels; at most " +
                          "67108864 are allowed")
                             .c_str(),
                         Error);
    // With square pixels the frame has eight times as many pixels.
    test::make_clip(path, {.sar_num = 8});
    CHECK(code_of(path, {.limits = {.max_pixels = 8 * 128 * 96 - 1}}) == ErrorCode::kTooLarge);
    for (const char* muxer : {"mp4", "matroska", "mpegts", "avi"}) {
      CAPTURE(std::string(muxer));
      test::make_clip(path, {.muxer = muxer});
      const ReadOptions options{.limits = {.max_pixels = 128 * 96 - 1}};
      CHECK(code_of(path, options) == ErrorCode::kTooLarge);
      CHECK_NOTHROW(read_clip(path, {.limits = {.max_pixels = 128 * 96}}));
    }
  }

  TEST_CASE("time limit and cancelling end the work soon") {
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "clip.mp4";
    test::make_clip(path, {.num_frames = 500, .b_frames = 2});
    for (const SeekMode seek : {SeekMode::kNever, SeekMode::kAlways, SeekMode::kAuto}) {
      ReadOptions options{.limits = {.max_decode_us = 1}, .seek = seek};
      const Stopwatch watch;
      CHECK(code_of(path, options) == ErrorCode::kTimeout);
      const std::atomic<bool> cancelled = true;
      options.limits = {};
      options.cancelled = &cancelled;
      CHECK(code_of(path, options) == ErrorCode::kCancelled);
      CHECK(watch.elapsed_us() < 1'000'000);
    }
  }

  TEST_CASE("options out of range are refused") {
    CHECK_THROWS_AS(read_clip("clip", {.sampling = {.num_frames = 0}}), Error);
    CHECK_THROWS_AS(read_clip("clip", {.limits = {.max_pixels = 0}}), Error);
  }
}

}  // namespace
}  // namespace caption::video
