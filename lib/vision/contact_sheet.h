// vision/contact_sheet.h: an overview image of the frames that a model gets, for a person to look
// at.
#pragma once

#include <span>
#include <string>

#include "video/clip.h"

namespace caption::vision {

// The frames in rows of at most four, each scaled to a width of `cell_width_px` or, if it is lower
// so, a height of four times as many pixels, with its aspect ratio kept and, where it is large
// enough, its presentation time written on it ("1.25 s"). Uncovered areas are black. Throws
// Error(kInternal) without frames or for a width of 0, Error(kOutOfMemory).
video::Frame contact_sheet(std::span<const video::Frame> frames, int cell_width_px = 240);

// Version of the loaded OpenCV: "4.6.0".
std::string opencv_version();

}  // namespace caption::vision
