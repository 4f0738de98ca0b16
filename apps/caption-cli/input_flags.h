// apps/caption-cli/input_flags.h: the flags that select the clips of a command.
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
  std::int64_t limit = 0;  // 0: no limit
};

// Adds the paths and --include, --exclude, --limit and -0. `flags` must outlive parsing.
void add_input_flags(CLI::App& command, InputFlags& flags);

// Returns the files that the flags select, in the order of the walk; logs what was left out. With
// --limit, files of walked folders without a video suffix are examined with `read`, so that only
// clips count. Throws Error(kUsage) when no clip is left, listing what was left out, and as
// pipeline::find_videos(); Error(kCancelled) when `read` is cancelled. `adapters` are the names
// that lines of the list may choose.
pipeline::InputList find_inputs(const InputFlags& flags, const video::ReadOptions& read,
                                const std::vector<std::string>& adapters);

// Whether an input counts as a clip: it was named, cannot be opened, or is a video by its suffix or
// its content. Throws Error(kCancelled).
bool is_clip(const pipeline::InputList& inputs, std::size_t i, const video::ReadOptions& read);

}  // namespace caption::cli
