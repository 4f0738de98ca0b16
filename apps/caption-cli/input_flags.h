// input_flags.h: which clips a run is about.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/input_list.h"
#include "video/read_clip.h"

namespace CLI {
class App;
}

namespace caption::cli {

struct InputFlags {
  std::vector<std::string> paths;
  bool null_separated = false;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::int64_t limit = 0;  // 0: none
};

// Adds the paths and --include, --exclude, --limit and -0. `flags` must outlive parsing.
void add_input_flags(CLI::App& command, InputFlags& flags);

// The files that the flags name, in the order of the walk; says on stderr what was left out. With
// --limit, files of walked folders that do not claim to be videos are looked at with `read`, so
// that only clips count.
// Throws Error(kUsage) when no clip is left, saying what was left out, and as
// pipeline::find_videos(); Error(kCancelled) when `read` says so.
pipeline::InputList find_inputs(const InputFlags& flags, const video::ReadOptions& read);

// Whether an input of a walked folder is a clip for its name or for its content; so is every other
// input, and a file that cannot be opened. Throws Error(kCancelled).
bool is_clip(const pipeline::InputList& inputs, std::size_t i, const video::ReadOptions& read);

}  // namespace caption::cli
