// video/internal/content_measures.h: image statistics for classify_content(), in levels of 0 to
// 255.
#pragma once

#include <array>

#include "video/clip.h"

namespace caption::video {

// Measured over at most 68 whole rows, evenly spaced: in a picture of 1080 rows, any object of at
// least 16 rows crosses one of them.
struct Flatness {
  std::array<int, 3> colour = {};  // mean RGB of evenly spaced pixels of the rows
  int deviation = 0;               // largest difference of any channel of any pixel from `colour`
};
Flatness measure_flatness(const Frame& frame);

// Statistics of luma, measured at up to 127 evenly spaced pixels in each of these rows.
struct Texture {
  double deviation = 0;  // standard deviation over the measured pixels
  double near = 0;       // larger correlation of the right and the lower neighbour
  double far = 0;        // correlation with the pixel 16 to the right
};
Texture measure_texture(const Frame& frame);

// Whether the means of two frames over some block of 16x16 pixels differ by more than `limit`
// levels in some channel; every fourth row of a block is read. The frames must have the same size.
// Stops at the first such block.
bool differs(const Frame& a, const Frame& b, int limit);

}  // namespace caption::video
