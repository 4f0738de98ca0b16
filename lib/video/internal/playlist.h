// video/internal/playlist.h: recognises text files that list other media, which libav refuses with
// a reason that says nothing of it.
#pragma once

#include <string_view>

#include "base/open_file.h"

namespace caption::video {

// Returns the kind of list that the first bytes of the file or, for a text, the end of its name
// say ("an M3U playlist"); an empty text for any other file. Throws as OpenFile::read_at().
std::string_view find_playlist_kind(const OpenFile& file);

}  // namespace caption::video
