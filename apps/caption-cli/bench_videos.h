// apps/caption-cli/bench_videos.h: `caption-cli bench VIDEO...`, real videos from files to
// captions.
#pragma once

#include <string>
#include <vector>

#include "backend/machine.h"
#include "config/load_preset.h"

namespace caption::cli {

struct BenchVideos {
  std::vector<std::string> paths;
  std::vector<std::string> prompts;  // asked about each clip; empty: the preset's
  // JSONL or a folder of label files, for the first prompt's captions; empty: no scores.
  std::string references;
  int repeat = 1;
  std::string json;  // file, "-" or empty
};

// Returns the exit code: 1 when clips failed. Throws Error as `run` does.
int bench_videos(const BenchVideos& wanted, const config::LoadedPreset& loaded,
                 const Machine& machine);

}  // namespace caption::cli
