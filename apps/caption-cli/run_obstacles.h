// apps/caption-cli/run_obstacles.h: whether `run` would start with a preset on this machine.
#pragma once

#include <string>
#include <vector>

#include "config/load_preset.h"

namespace caption::cli {

// Returns one phrase for each reason why `run` would not start: what this build lacks, options that
// contradict each other and, where nothing is lacking, a model that is not here or is of another
// family. The list is empty when `run` would start; it says nothing about memory, which the plan
// judges. Opens the model's files as `run` does, but reads no weights.
std::vector<std::string> run_obstacles(const config::LoadedPreset& loaded);

}  // namespace caption::cli
