// apps/caption-cli/run_obstacles.h: whether `run` would start with a preset on this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/load_preset.h"

namespace caption::cli {

struct RunCheck {
  std::vector<std::string> obstacles;
  // Tokens of the longest prompt beside its vision tokens; not set where the model is not here.
  std::optional<std::int64_t> prompt_tokens;
};

// Finds one phrase for each reason why `run` would not start: what this build lacks, options that
// contradict each other and, where nothing is lacking, a model that is not here or is of another
// family. There are none when `run` would start; they say nothing about memory, which the plan
// judges. Opens the model's files as `run` does, but reads no weights. `prompts`: what is asked; an
// empty list stands for the preset's own prompt, an empty prompt for the model's.
RunCheck check_run(const config::LoadedPreset& loaded, std::vector<std::string> prompts = {});

// check_run().obstacles.
std::vector<std::string> run_obstacles(const config::LoadedPreset& loaded);

}  // namespace caption::cli
