// video/internal/sample_frames.h: which frames of a video are wanted.
#pragma once

#include <cstdint>
#include <vector>

#include "video/read_clip.h"

namespace caption::video {

// When each frame is shown, counted from the first one's start.
struct Timeline {
  std::vector<std::int64_t> start_us;  // ascending
  std::int64_t end_us = 0;             // of the last frame
  std::int64_t tolerance_us = 1;       // half a tick of the stream's clock: starts are that exact

  std::int64_t num_frames() const { return static_cast<std::int64_t>(start_us.size()); }
};

// Frame positions in ascending order, possibly repeated; num_frames of them, or fewer for kFps.
// The timeline holds at least one frame.
//   kArange    numpy.arange(0, T, T / n).astype(int), cut to n
//   kLinspace  numpy.linspace(0, T - 1, n).astype(int)
// in double precision as numpy computes them (tests/video/sample_frames_test.cpp).
std::vector<std::int64_t> sample_frames(const SamplingOptions& options, const Timeline& timeline);

// Throws Error(kUsage) for a number out of its range.
void require_valid(const SamplingOptions& options);

}  // namespace caption::video
