// video/internal/content_measures.h: what classify_content() decides by, in levels of 0 to 255.
#pragma once

#include <array>

#include "video/clip.h"

namespace caption::video {

// Measured over up to 68 whole rows, evenly spread: anything as high as a sixteenth of 1080 lines
// crosses one of them.
struct Flatness {
  std::array<int, 3> colour = {};  // RGB, mean over the frame
  int deviation = 0;               // largest of any pixel's channels from it
};
Flatness measure_flatness(const Frame& frame);

// Measured on luma at up to about 64 places in each of these rows.
struct Texture {
  double deviation = 0;  // standard deviation over the frame
  double near = 0;       // correlation with the pixel beside, and with the one below: the larger
  double far = 0;        // correlation with a pixel of the row 16 or more to the right
};
Texture measure_texture(const Frame& frame);

// Whether the means of the two frames over some block of 16x16 pixels differ by more than `limit`
// in some channel; every fourth row is read. Frames of one size. Ends at the first such block.
bool differs(const Frame& a, const Frame& b, int limit);

}  // namespace caption::video
