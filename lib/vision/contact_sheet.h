// vision/contact_sheet.h: the frames that a model gets, for a person to look at.
#pragma once

#include <span>
#include <string>

#include "video/clip.h"

namespace caption::vision {

// The frames in rows of at most four, each scaled to `cell_width_px` with its aspect ratio kept and
// its presentation time written on it ("1.25 s") where it is wide enough; black where rows are
// uneven. Throws Error(kInternal) without frames.
video::Frame contact_sheet(std::span<const video::Frame> frames, int cell_width_px = 240);

// Of the OpenCV that is loaded: "4.6.0".
std::string opencv_version();

}  // namespace caption::vision
