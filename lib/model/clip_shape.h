// model/clip_shape.h: what the layout of a prompt depends on: the number, size and times of a
// clip's frames.
#pragma once

#include <cstdint>
#include <vector>

namespace caption::model {

// Size of the video's frames; relevant only for towers that take frames of any size.
struct FrameSize {
  std::int64_t width_px = 1280;
  std::int64_t height_px = 720;

  friend bool operator==(const FrameSize&, const FrameSize&) = default;
};

// The frames that were sampled from one clip.
struct ClipShape {
  std::int64_t num_frames = 0;
  FrameSize frame = {};
  // Presentation times in seconds since the first frame of the video, one per frame; empty: not
  // known, and each family takes its reference's default. In a film of a constant rate they are the
  // quotients frame / rate that the references compute.
  std::vector<double> times_s = {};
  // The length of the whole video, from its first frame to the end of its last one; 0: not known.
  std::int64_t duration_us = 0;

  friend bool operator==(const ClipShape&, const ClipShape&) = default;
};

}  // namespace caption::model
