#include "planned_run.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "bench/process_memory.h"
#include "config/choices.h"
#include "config/generation_defaults.h"
#include "config/resolve.h"
#include "config/weight_choice.h"

namespace caption::cli {
namespace {

// Throws the error with which `run` would end, if there is one, for a model of no known shape.
config::PresetBlueprint find_model_shape(const config::LoadedPreset& loaded,
                                         const std::vector<Obstacle>& obstacles) {
  try {
    return config::find_preset_blueprint(loaded.preset.model, loaded.locations);
  } catch (const Error& error) {
    if (is_of_machine(error.code()) || obstacles.empty()) throw;
  }
  throw Error(obstacles.front().code, obstacles.front().text);
}

// Throws the error of the first obstacle, or Error(kBadModel), for a model that cannot write.
void require_decoder(const model::Blueprint& model, const std::vector<Obstacle>& obstacles) {
  if (model.text.has_value()) return;
  if (!obstacles.empty()) throw Error(obstacles.front().code, obstacles.front().text);
  throw Error(ErrorCode::kBadModel, model.name + ": has no decoder to plan for");
}

// Opens a model that check_run() left closed, for its digest alone: the preset's device is not
// here. Null for one that cannot be opened.
std::unique_ptr<model::CaptionModel> open_for_digest(const config::PlannedRun& run) {
  if (!run.found.note.empty()) return nullptr;  // its files are not here
  config::Preset as_stored = run.loaded.preset;
  as_stored.quantization.weights = config::WeightFormat::kF32;
  try {
    return config::open_model(run.context, as_stored, run.loaded.locations,
                              {.opening = model::Opening::kToCheck});
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    return nullptr;
  }
}

}  // namespace

void adopt_generation_defaults(config::LoadedPreset& loaded) {
  try {
    const auto found = config::find_generation_config(loaded.preset, loaded.locations);
    if (found.has_value()) config::apply_generation_config(loaded.preset, *found);
  } catch (const Error& error) {
    // An error of that file ends the run, and is among the obstacles of a plan.
    if (is_of_machine(error.code())) throw;
  }
}

void warn_of_unused(const char* command, const config::LoadedPreset& loaded,
                    std::span<const config::Override> flags, config::RunFacts facts) {
  const bool has_requantize = std::any_of(flags.begin(), flags.end(), [](const auto& flag) {
    return flag.key == "quantization.requantize";
  });
  const bool is_settled = loaded.preset.quantization.weights != config::WeightFormat::kAuto;
  if (has_requantize && is_settled) {
    facts.rounds_codes = config::rounds_codes(loaded.preset, loaded.locations);
  }
  for (const std::string& line : config::describe_unused(loaded.preset, flags, facts)) {
    log_warning(command, line);
  }
}

CheckedRun check_planned_run(const Context& context, const Machine& machine,
                             config::LoadedPreset loaded, const std::vector<std::string>& prompts,
                             const std::atomic<bool>* cancelled) {
  const std::int64_t process_bytes = bench::process_memory().anonymous_bytes;
  RunCheck check = check_run(context, loaded, prompts, cancelled);
  adopt_generation_defaults(loaded);
  config::PresetBlueprint found = find_model_shape(loaded, check.obstacles);
  config::apply_max_pixels(loaded.preset.video, found.blueprint);
  require_decoder(found.blueprint, check.obstacles);
  const std::optional<config::PromptTokens> prompt_tokens = check.prompt_tokens;
  return {.run = {.context = context,
                  .machine = machine,
                  .loaded = std::move(loaded),
                  .found = std::move(found),
                  .prompt_tokens = prompt_tokens,
                  .process_bytes = process_bytes},
          .check = std::move(check)};
}

plan::FormatReport compare_formats(config::RunPlanner& planner, const model::CaptionModel* model,
                                   config::ComparedFormats compared) {
  std::unique_ptr<model::CaptionModel> opened;
  if (model == nullptr) opened = open_for_digest(planner.run());
  if (opened != nullptr) model = opened.get();
  std::optional<Sha256> hash;
  if (model != nullptr) hash = model->content_hash();
  return config::compare_formats(planner, hash, compared);
}

namespace {

// check_planned_run() without its warnings, which opening the model to run gives again, and without
// the captions to guess from, which no plan depends on and the run reads.
CheckedRun check_quietly(const Context& context, const Machine& machine,
                         config::LoadedPreset loaded, const std::vector<std::string>& prompts,
                         const std::atomic<bool>* cancelled) {
  struct Restore {
    LogLevel level = log_level();
    ~Restore() { set_log_level(level); }
  } const restore;
  set_log_level(LogLevel::kError);
  loaded.preset.speculative.draft_from.clear();
  return check_planned_run(context, machine, std::move(loaded), prompts, cancelled);
}

}  // namespace

void settle_weights(const char* command, const Context& context, const Machine& machine,
                    config::LoadedPreset& loaded, const std::vector<std::string>& prompts,
                    const std::atomic<bool>* cancelled) {
  config::WeightFormat& weights = loaded.preset.quantization.weights;
  if (weights != config::WeightFormat::kAuto) return;
  CheckedRun checked = check_quietly(context, machine, loaded, prompts, cancelled);
  config::RunPlanner planner(
      std::move(checked.run),
      {.takes_kept_rates = true, .rates_advice = "name a format with --dtype in place of auto"});
  const plan::FormatReport report = compare_formats(planner, checked.check.model.get());
  weights = config::chosen_weights(report);
  log_info(command, "weights as " + report.choice.reason);
}

}  // namespace caption::cli
