// video/image.h: stills through libav, and the contact sheet of `inspect`.
#pragma once

#include <filesystem>

#include "video/clip.h"

namespace caption::video {

// Writes one frame as PNG. Throws Error(kIo).
void write_png(const std::filesystem::path& path, const Frame& frame);

// All frames of a clip in a grid, each scaled to `cell_width_px` with its aspect ratio kept.
// The cells of a row have one height. Throws Error(kInternal) for an empty clip.
Frame contact_sheet(const Clip& clip, int cell_width_px = 240);

}  // namespace caption::video
