// video/clip.h: the decoded frames of one video, with their times and positions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace caption::video {

// One decoded frame, upright (rotation applied) with square pixels, RGB8, rows without padding.
struct Frame {
  int width_px = 0;
  int height_px = 0;
  std::int64_t pts_us = 0;        // presentation time since the first frame, jumps removed
  std::int64_t frame_idx = 0;     // 0-based position in presentation order
  std::vector<std::uint8_t> rgb;  // [height_px, width_px, 3]

  std::size_t size_bytes() const { return rgb.size(); }
};

// The sampled frames of one video, in presentation order.
struct Clip {
  std::string path;
  std::vector<Frame> frames;      // never empty
  int frames_wanted = 0;          // frames.size() is smaller when frames are damaged or missing
  std::int64_t total_frames = 0;  // frames of the video stream, counted, not declared
  std::int64_t duration_us = 0;   // start of the first to end of the last frame, jumps removed
  // Frames per second, where the file declares a rate and every frame here is at frame_idx / fps by
  // its clock; else 0. The quotient is more exact than pts_us, which is whole microseconds.
  double fps = 0;
  std::vector<std::string> warnings;  // e.g. "2 damaged packets or frames"

  std::size_t size_bytes() const {
    std::size_t sum = 0;
    for (const Frame& frame : frames) sum += frame.size_bytes();
    return sum;
  }
};

// The warning for a film that has fewer frames than wanted, such as "1 frame in the whole film; 8
// were wanted, so frames repeat". Empty for any other film.
std::string describe_few_frames(const Clip& clip);

}  // namespace caption::video
