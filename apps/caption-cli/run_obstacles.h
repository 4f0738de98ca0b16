// apps/caption-cli/run_obstacles.h: whether `run` would start with a preset on this machine.
#pragma once

#include <string>
#include <vector>

#include "config/load_preset.h"

namespace caption::cli {

// Why not, each as a phrase: what this build lacks, options that contradict each other, and, where
// nothing is lacking, a model that is not here or of another family. Empty when `run` would start;
// memory is for the plan to judge. Opens the model's files as `run` does, but reads no weights.
std::vector<std::string> run_obstacles(const config::LoadedPreset& loaded);

}  // namespace caption::cli
