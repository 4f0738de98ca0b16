// video/image.h: writing frames as still images through libav.
#pragma once

#include <filesystem>

#include "video/clip.h"

namespace caption::video {

// Writes one frame as a PNG file. Throws Error(kIo), also when this FFmpeg has no PNG encoder, and
// Error(kOutOfMemory).
void write_png(const std::filesystem::path& path, const Frame& frame);

}  // namespace caption::video
