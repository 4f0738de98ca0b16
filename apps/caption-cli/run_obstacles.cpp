#include "run_obstacles.h"

#include <algorithm>

#include "backend/machine.h"
#include "base/error.h"
#include "config/draft_captions.h"
#include "config/draft_model.h"
#include "config/examples.h"
#include "config/generation_defaults.h"
#include "config/option_names.h"
#include "config/preset_blueprint.h"
#include "config/resolve.h"
#include "model/file_codes.h"
#include "weights/file_format.h"
#include "write_checks.h"

namespace caption::cli {

namespace {

// Adds the message of the Error that `check` throws, once; adds nothing when it throws none. Throws
// Error(kCancelled) on.
template <class Check>
void collect(std::vector<Obstacle>& obstacles, Check&& check) {
  try {
    check();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    const bool is_known =
        std::any_of(obstacles.begin(), obstacles.end(),
                    [&](const Obstacle& obstacle) { return obstacle.text == error.what(); });
    if (!is_known) obstacles.push_back({.code = error.code(), .text = error.what()});
  }
}

// Refuses a model whose files do not hold the codes that the preset asks for; one that is not here
// is left to open_model().
void require_held_codes(const config::LoadedPreset& loaded) {
  const config::QuantizationSection& quantization = loaded.preset.quantization;
  if (quantization.weights == config::WeightFormat::kAuto) return;
  const weights::WeightFormat format = config::weight_format(quantization);
  if (!weights::is_file_format(format)) return;
  std::optional<config::PresetBlueprint> found;
  try {
    found = config::find_preset_blueprint(loaded.preset.model, loaded.locations);
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    return;
  }
  if (!found->note.empty()) return;
  model::require_file_codes(found->blueprint.name, found->blueprint, format);
}

// Counts the tokens of the longest prompt. The number of frames does not change its text.
config::PromptTokens count_prompt_tokens(const model::CaptionModel& model,
                                         const config::Preset& preset,
                                         const std::vector<std::string>& prompts,
                                         const std::atomic<bool>* cancelled) {
  video::ReadOptions read = config::read_options(preset);
  read.cancelled = cancelled;
  const std::vector<pipeline::Example> examples = config::read_examples(preset, read);
  config::PromptTokens most;
  for (const std::string& prompt : prompts) {
    const std::string text = prompt.empty() ? model.default_prompt() : prompt;
    const model::Conversation conversation =
        pipeline::conversation_of(preset.generation.system, examples, text);
    const config::PromptTokens tokens =
        config::count_prompt_tokens(model, conversation, {.num_frames = 1});
    if (tokens.total() > most.total()) most = tokens;
  }
  return most;
}

}  // namespace

RunCheck check_run(const Context& context, const config::LoadedPreset& loaded,
                   std::vector<std::string> prompts, const std::atomic<bool>* cancelled) {
  const config::Preset& preset = loaded.preset;
  RunCheck check;
  std::vector<Obstacle>& obstacles = check.obstacles;
  const std::vector<std::string> missing = config::missing_features(preset, has_cuda_kernels());
  for (const std::string& feature : missing) {
    if (obstacles.empty()) {
      obstacles.push_back({.code = ErrorCode::kUnavailable, .text = "this build lacks " + feature});
    } else {
      obstacles.front().text += ", " + feature;
    }
  }
  collect(obstacles, [&] { config::require_consistent(preset); });
  const auto check_cache = [&] { require_usable_cache(preset.engine.kv_cache_dir); };
  // The user will choose another preset, usually with another model, so errors of this model would
  // not help.
  if (!missing.empty()) {
    collect(obstacles, check_cache);
    return check;
  }
  if (prompts.empty()) prompts = {preset.generation.prompt};
  collect(obstacles, [&] { require_held_codes(loaded); });
  collect(obstacles, [&] {
    // `context` may be the CPU's where the preset is for a GPU; its device is checked when a model
    // is opened, or planned.
    if (preset.device.type == config::DeviceType::kCuda) return;
    if (preset.quantization.weights == config::WeightFormat::kAuto) return;
    config::require_products(context, preset, loaded.locations);
  });
  collect(obstacles, [&] {
    // As f32, weights are neither converted nor packed: they stay mapped and are not read.
    config::Preset as_stored = preset;
    as_stored.quantization.weights = config::WeightFormat::kF32;
    check.model = config::open_model(context, as_stored, loaded.locations,
                                     {.opening = model::Opening::kToCheck, .cancelled = cancelled});
    config::apply_generation_config(as_stored, check.model->generation_config());
    config::require_token_range(as_stored);
    config::require_consistent(as_stored);
    config::require_valid_sampling(as_stored, *check.model);
    check.prompt_tokens = count_prompt_tokens(*check.model, preset, prompts, cancelled);
  });
  collect(obstacles, [&] {
    if (check.model == nullptr) return;
    config::open_draft_model(context, preset, loaded.locations, *check.model,
                             {.opening = model::Opening::kToCheck, .cancelled = cancelled});
  });
  collect(obstacles, [&] { config::draft_options(preset, cancelled); });
  collect(obstacles, check_cache);
  return check;
}

std::vector<std::string> obstacle_texts(const std::vector<Obstacle>& obstacles) {
  std::vector<std::string> texts;
  for (const Obstacle& obstacle : obstacles) texts.push_back(obstacle.text);
  return texts;
}

}  // namespace caption::cli
