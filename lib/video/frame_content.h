// video/frame_content.h: detects clips whose frames show nothing that a caption could describe.
#pragma once

#include <span>
#include <string_view>

#include "video/clip.h"

namespace caption::video {

enum class FrameContent {
  kPicture,  // none of the classes below
  kBlack,    // every frame is black
  kWhite,    // every frame is white
  kUniform,  // every frame is one even colour, not always black or white
  kNoise,    // every frame is noise: no pixel resembles its neighbour
  kFrozen,   // frames at different times show the same picture
};

// Classifies the sampled frames of one clip; kPicture when there are none. Every other class
// requires that all frames satisfy it over their whole area: one lamp at night makes a picture. Of
// a 1080p film one row in sixteen of the first frame is read and, as long as nothing has moved, one
// row in four of the others: below 0.2 ms for a 1080p frame. Thread-safe.
FrameContent classify_content(std::span<const Frame> frames);

// snake_case name: "picture", "black", ...
std::string_view content_name(FrameContent content);

// "every frame is black", ...; empty for kPicture.
std::string_view content_sentence(FrameContent content);

}  // namespace caption::video
