// pipeline/find_videos.h: from what the user named to the list of clips.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace caption::pipeline {

enum class Origin {
  kNamed,       // by the user: whatever is wrong with it has a record
  kFolderWalk,  // found in a folder: left out quietly when it is no video and does not claim to be
};

struct Input {
  std::string path;  // bytes as the system has them
  Origin origin = Origin::kNamed;
  // Prompts of the run that this clip is to be asked, by their number; empty: all of them.
  std::vector<std::size_t> prompts = {};
};

struct FoundVideos {
  std::vector<Input> inputs;        // without duplicates, in the order named; folders sorted
  std::int64_t num_duplicates = 0;  // paths that name a clip already in the list
};

// Folders are walked whole; hidden files and folders (".name") and links to folders are left out,
// and so are FIFOs, sockets and devices. Everything else is judged by its content when it is
// opened. A folder that cannot be read is an input of its own, so that it gets a failed record.
FoundVideos find_videos(const std::vector<std::string>& paths);

// Whether the name claims to be a video (".mp4", ".mkv", ...). Such a file in a folder is never
// left out in silence.
bool claims_to_be_video(const std::string& path);

}  // namespace caption::pipeline
