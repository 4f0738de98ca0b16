// video/image.h: stills through libav.
#pragma once

#include <filesystem>

#include "video/clip.h"

namespace caption::video {

// Writes one frame as PNG. Throws Error(kIo).
void write_png(const std::filesystem::path& path, const Frame& frame);

}  // namespace caption::video
