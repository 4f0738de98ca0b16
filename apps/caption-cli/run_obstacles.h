// apps/caption-cli/run_obstacles.h: checks whether `run` would start with a preset on this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/context.h"
#include "config/load_preset.h"

namespace caption::cli {

struct RunCheck {
  std::vector<std::string> obstacles;
  // Text tokens of the longest prompt, without vision tokens; not set if the model is not
  // available.
  std::optional<std::int64_t> prompt_tokens;
};

// Finds one phrase for each reason why `run` would not start: features that this build lacks,
// options that contradict each other and, if no feature is lacking, a model that is missing or of
// an unsupported family. Memory is not considered; the plan does that. Opens the model's files as
// `run` does, but reads no weights. An empty list of `prompts` means the preset's prompt, an empty
// prompt the model's.
RunCheck check_run(const Context& context, const config::LoadedPreset& loaded,
                   std::vector<std::string> prompts = {});

// Returns check_run().obstacles.
std::vector<std::string> run_obstacles(const Context& context, const config::LoadedPreset& loaded);

}  // namespace caption::cli
