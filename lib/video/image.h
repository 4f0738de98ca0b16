// video/image.h: encoding frames as still images through libav.
#pragma once

#include <string>
#include <string_view>

#include "video/clip.h"

namespace caption::video {

// The bytes of a PNG file with the frame. `software`, of 1 to 79 printable characters of ASCII,
// names its maker: the text of its keyword "Software", within the first 200 bytes. Throws
// Error(kIo) when this FFmpeg has no PNG encoder or refuses the size, and Error(kOutOfMemory).
std::string encode_png(const Frame& frame, std::string_view software);

}  // namespace caption::video
