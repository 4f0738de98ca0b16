// video/clip.h: decoded frames of one video, with where they came from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace caption::video {

// One decoded frame, upright (rotation applied) with square pixels, RGB8, rows dense.
struct Frame {
  int width_px = 0;
  int height_px = 0;
  std::int64_t pts_us = 0;        // presentation time from the clip's first frame, less jumps
  std::int64_t frame_idx = 0;     // position in presentation order, 0-based
  std::vector<std::uint8_t> rgb;  // height * width * 3

  std::size_t size_bytes() const { return rgb.size(); }
};

// The sampled frames of one video, in presentation order.
struct Clip {
  std::string path;
  std::vector<Frame> frames;          // never empty
  int frames_wanted = 0;              // frames.size() is less when frames are broken or missing
  std::int64_t total_frames = 0;      // of the video stream, counted, not declared
  std::int64_t duration_us = 0;       // shown: first frame's start to last one's end, less jumps
  std::vector<std::string> warnings;  // e.g. "2 corrupted packets skipped"

  std::size_t size_bytes() const {
    std::size_t sum = 0;
    for (const Frame& frame : frames) sum += frame.size_bytes();
    return sum;
  }
};

// "1 frame in the whole film; 8 were wanted, so frames repeat": the warning for a film that has
// fewer frames than were wanted. Empty for any other.
std::string describe_few_frames(const Clip& clip);

}  // namespace caption::video
