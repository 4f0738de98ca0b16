// apps/caption-cli/run_obstacles.h: checks whether `run` would start with a preset on this machine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/context.h"
#include "base/error.h"
#include "config/load_preset.h"
#include "config/prompt_tokens.h"
#include "model/caption_model.h"

namespace caption::cli {

// A reason why `run` would not start.
struct Obstacle {
  ErrorCode code = ErrorCode::kUsage;  // code of the error that `run` would report
  std::string text;                    // a phrase
};

struct RunCheck {
  std::vector<Obstacle> obstacles;  // in the order in which `run` would meet them
  // Tokens of the longest prompt about one frame; not set if the model is not available.
  std::optional<config::PromptTokens> prompt_tokens;
  // The model, opened with Opening::kToCheck; null if it cannot be opened.
  std::unique_ptr<model::CaptionModel> model;
};

// Finds the reasons why `run` would not start: features that this build lacks, options that
// contradict each other and, if no feature is lacking, a model that is missing or of an unsupported
// family, a draft model that cannot guess for it, and captions to guess from that cannot be read.
// Memory is not considered; the plan does that. Opens the models' files as `run` does, but reads no
// weights. An empty list of `prompts` means the preset's prompt, an empty prompt the
// model's. `cancelled` may be null; Error(kCancelled) is thrown soon after it has become true, here
// and in CaptionModel::content_hash() of the returned model.
RunCheck check_run(const Context& context, const config::LoadedPreset& loaded,
                   std::vector<std::string> prompts = {},
                   const std::atomic<bool>* cancelled = nullptr);

std::vector<std::string> obstacle_texts(const std::vector<Obstacle>& obstacles);

}  // namespace caption::cli
