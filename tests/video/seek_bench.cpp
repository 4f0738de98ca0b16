// Measures the time of sampling a long film as a share of decoding all of it, and compares the
// frames. Without an argument it makes ten minutes of 1080p H.264 with a keyframe every two seconds
// in the temporary folder, once.
//
//   caption_seek_bench [FILE [FRAMES [THREADS]]]
//
// Runs both ways alternately, five times, and prints the median processor time of each (independent
// of parallelism and of other load); exits with 1 when frames differ.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/video/make_clip.h"
#include "video/read_clip.h"

namespace {

using caption::video::Clip;
using caption::video::SeekMode;

constexpr int kRounds = 5;

std::filesystem::path ten_minutes() {
  const auto path = std::filesystem::temp_directory_path() / "caption_seek_bench_1080p_10min.mp4";
  if (std::filesystem::exists(path)) return path;
  std::fprintf(stderr, "making %s\n", path.c_str());
  auto part = path;
  part += ".part";
  caption::test::make_clip(part, {.width_px = 1920,
                                  .height_px = 1080,
                                  .num_frames = 10 * 60 * 30,
                                  .fps = 30,
                                  .gop_frames = 60,
                                  .b_frames = 3,
                                  .encoder_options = {{"preset", "ultrafast"}, {"bf", "3"}}});
  std::filesystem::rename(part, path);
  return path;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(const std::filesystem::path& path, int num_frames, int num_threads) {
  std::vector<double> ms[2];
  Clip clips[2];
  constexpr SeekMode kModes[2] = {SeekMode::kAuto, SeekMode::kNever};
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 2; ++i) {
      const std::clock_t start = std::clock();
      clips[i] = caption::video::read_clip(path, {.sampling = {.num_frames = num_frames},
                                                  .limits = {.max_decode_us = 3'600'000'000},
                                                  .seek = kModes[i],
                                                  .num_threads = num_threads});
      ms[i].push_back(1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
  }
  bool is_same = clips[0].frames.size() == clips[1].frames.size();
  for (std::size_t i = 0; is_same && i < clips[0].frames.size(); ++i) {
    is_same = clips[0].frames[i].rgb == clips[1].frames[i].rgb &&
              clips[0].frames[i].pts_us == clips[1].frames[i].pts_us;
  }
  const double auto_ms = median(ms[0]), all_ms = median(ms[1]);
  std::printf(
      "%s: %d of %lld frames, %d threads: seeking %.0f ms, decoding all %.0f ms, "
      "ratio %.3f, frames %s\n",
      path.filename().c_str(), num_frames, static_cast<long long>(clips[0].total_frames),
      num_threads, auto_ms, all_ms, auto_ms / all_ms, is_same ? "identical" : "DIFFERENT");
  return is_same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::filesystem::path path = argc > 1 ? std::filesystem::path(argv[1]) : ten_minutes();
    return run(path, argc > 2 ? std::atoi(argv[2]) : 8, argc > 3 ? std::atoi(argv[3]) : 1);
  } catch (const caption::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
