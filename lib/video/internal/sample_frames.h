// video/internal/sample_frames.h: chooses the frames of a video.
#pragma once

#include <cstdint>
#include <vector>

#include "video/read_clip.h"

namespace caption::video {

// Presentation times of all frames, relative to the start of the first one.
struct Timeline {
  std::vector<std::int64_t> start_us;  // ascending
  std::int64_t end_us = 0;             // end of the last frame
  std::int64_t tolerance_us = 1;       // half a tick of the stream's clock: the error of start_us
  double declared_fps = 0;             // average frames per second; 0: none is declared

  std::int64_t num_frames() const { return static_cast<std::int64_t>(start_us.size()); }
};

// Positions of the chosen frames in ascending order, possibly repeated; num_frames of them, or
// fewer for kFps. T is the number of frames, at least one; n is num_frames.
//   kArange    numpy.arange(0, T, T / n).astype(int), cut to n
//   kLinspace  numpy.linspace(0, T - 1, n).astype(int)
// in double precision, with numpy's results (tests/video/sample_frames_test.cpp).
std::vector<std::int64_t> sample_frames(const SamplingOptions& options, const Timeline& timeline);

// Throws Error(kUsage) when num_frames or fps is out of range.
void require_valid(const SamplingOptions& options);

}  // namespace caption::video
