// Milliseconds that one thread needs to turn a frame into the 336 x 336 pixel values of a CLIP
// tower: the median of kRounds rounds of at least 100 ms. Not run by ctest:
// caption_preprocess_bench
#include <algorithm>
#include <cstdio>
#include <span>
#include <vector>

#include "backend/thread_pool.h"
#include "base/clock.h"
#include "tests/vision/synthetic_frame.h"
#include "vision/preprocess.h"

namespace {

constexpr int kRounds = 5;
constexpr double kRoundMs = 100;

double ms_per_frame(const caption::video::Frame& frame) {
  caption::ThreadPool pool(1);
  caption::Stream stream(pool);
  caption::vision::PreprocessSpec spec;
  spec.shortest_edge_px = 336;
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const caption::Stopwatch watch;
    int frames = 0;
    do {
      caption::vision::preprocess(stream, std::span(&frame, 1), spec);
      ++frames;
    } while (watch.elapsed_ms() < kRoundMs);
    rounds.push_back(watch.elapsed_ms() / frames);
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[kRounds / 2];
}

}  // namespace

int main() {
  for (const auto& [width, height] :
       {std::pair{3840, 2160}, {1920, 1080}, {1280, 720}, {320, 240}}) {
    const caption::video::Frame frame =
        caption::testing::synthetic_frame(height, width, 1, "waves");
    std::printf("%4d x %-4d  %6.2f ms a frame\n", width, height, ms_per_frame(frame));
  }
  return 0;
}
