#include "plan_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/machine.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/join.h"
#include "base/log.h"
#include "config/adapters.h"
#include "config/generation_defaults.h"
#include "config/preset_blueprint.h"
#include "config/resolve.h"
#include "exit_codes.h"
#include "globals.h"
#include "option_types.h"
#include "plan/cards.h"
#include "plan/plan.h"
#include "plan_input.h"
#include "preset_flags.h"
#include "run_obstacles.h"

namespace caption::cli {
namespace {

struct PlanFlags {
  PresetFlags preset;
  std::optional<std::int64_t> output_tokens;
  std::optional<std::int64_t> prompt_tokens;
  std::string frame_size = "1280x720";
  std::string card;
  std::optional<double> bandwidth_gb_s;
  std::optional<double> gflops;
  std::optional<std::int64_t> memory_bytes;
  bool json = false;
};

model::FrameSize parse_frame_size(const std::string& text) {
  model::FrameSize size;
  int length = 0;
  const int found =
      std::sscanf(text.c_str(), "%5ldx%5ld%n", &size.width_px, &size.height_px, &length);
  const bool is_whole = found == 2 && static_cast<std::size_t>(length) == text.size();
  if (!is_whole || size.width_px < 1 || size.height_px < 1) {
    throw Error(ErrorCode::kUsage,
                "--frame-size: \"" + text + "\" is no size in pixels such as 1280x720");
  }
  return size;
}

// Sets the card for which a CUDA preset is planned: --card, the card after which the preset is
// named, or the card of this machine.
void choose_card(const PlanFlags& flags, const std::string& preset, const Machine& machine,
                 plan::PlanInput& input) {
  const std::string wanted = flags.card.empty() ? preset : flags.card;
  if (const auto card = plan::find_card(wanted)) {
    set_card(*card, input);
  } else {
    const std::string names = join(plan::card_names());
    if (!flags.card.empty()) {
      throw Error(ErrorCode::kUsage,
                  "--card: no card is known as \"" + flags.card + "\"; there are " + names);
    }
    if (machine.cuda_devices.empty()) {
      throw Error(ErrorCode::kUnavailable,
                  "plan: preset " + preset +
                      " is for a CUDA device, and none is here; name a card "
                      "with --card: " +
                      names);
    }
    set_card(machine.cuda_devices.front(), input);
  }
  input.memory_bytes = flags.memory_bytes.value_or(input.memory_bytes);
}

void set_rates(const PlanFlags& flags, const config::Preset& preset, const Machine& machine,
               plan::PlanInput& input) {
  const bool is_given = flags.bandwidth_gb_s.has_value() && flags.gflops.has_value();
  if (input.device == plan::PlanDevice::kHost && !is_given) {
    input.rates = measure_rates(preset, machine, input);
  }
  if (flags.bandwidth_gb_s.has_value()) input.rates.bytes_per_s = *flags.bandwidth_gb_s * 1e9;
  if (flags.gflops.has_value()) input.rates.flops_per_s = *flags.gflops * 1e9;
  if (is_given) {
    input.rates.source = "as given";
  } else if (flags.bandwidth_gb_s.has_value() || flags.gflops.has_value()) {
    input.rates.source += ", and as given";
  }
  if (input.rates.bytes_per_s <= 0 || input.rates.flops_per_s <= 0) {
    throw Error(ErrorCode::kUsage, "plan: the rates of " + input.device_name +
                                       " are not known; give --bandwidth and --flops");
  }
}

// Throws the error of the first obstacle, or Error(kBadModel), for a model that cannot write.
void require_decoder(const model::Blueprint& model, const std::vector<Obstacle>& obstacles,
                     const char* purpose) {
  if (model.text.has_value()) return;
  if (!obstacles.empty()) throw Error(obstacles.front().code, obstacles.front().text);
  throw Error(ErrorCode::kBadModel, model.name + ": has no decoder to " + purpose);
}

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

// Adds an obstacle for the first matrix whose codes the preset's format would round a second time.
void add_format_obstacle(const config::QuantizationSection& quantization,
                         const model::Blueprint& blueprint, std::vector<Obstacle>& obstacles) {
  if (quantization.requantize) return;
  for (const model::Parameter& parameter : blueprint.parameters) {
    if (!parameter.codes) continue;
    try {
      weights::require_kept_codes(config::weight_format(quantization), *parameter.codes,
                                  blueprint.name + ": tensor " + parameter.name);
    } catch (const Error& error) {
      obstacles.push_back({.code = error.code(), .text = error.what()});
      return;
    }
  }
}

// Adds what the adapters need. Their errors are obstacles of the run.
void add_adapters(const config::LoadedPreset& loaded, const config::PresetBlueprint& found,
                  std::vector<Obstacle>& obstacles, plan::PlanInput& input) {
  const config::Preset& preset = loaded.preset;
  if (!found.note.empty()) {
    if (!preset.model.adapter.empty()) {
      log_warning("plan", "adapters are not counted, because the model's files are not here");
    }
    return;
  }
  try {
    input.adapters =
        config::measure_adapters(input.context, preset, loaded.locations, found.blueprint);
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    const bool is_known =
        std::any_of(obstacles.begin(), obstacles.end(),
                    [&](const Obstacle& obstacle) { return obstacle.text == error.what(); });
    if (!is_known) obstacles.push_back({.code = error.code(), .text = error.what()});
  }
}

// Adds that the plan is for another machine.
void add_machine_obstacles(const PlanFlags& flags, const config::Preset& preset,
                           const Machine& machine, const plan::PlanInput& input,
                           std::vector<Obstacle>& obstacles) {
  const bool is_cuda_preset = preset.device.type == config::DeviceType::kCuda;
  if (input.device == plan::PlanDevice::kCard && !is_cuda_preset) {
    obstacles.insert(obstacles.begin(), {.code = ErrorCode::kUnavailable,
                                         .text = "planned for an " + input.device_name +
                                                 "; the preset runs on the CPU"});
  }
  if (flags.memory_bytes.has_value() && input.device == plan::PlanDevice::kHost &&
      input.memory_bytes > machine.memory_bytes) {
    obstacles.push_back(
        {.code = ErrorCode::kOutOfMemory, .text = "planned for more memory than is here"});
  }
}

// Applies the model's generation defaults as `run` does. Errors of that file are already listed as
// obstacles.
void adopt_generation_defaults(config::LoadedPreset& loaded) {
  try {
    const auto found = config::find_generation_config(loaded.preset, loaded.locations);
    if (found.has_value()) config::apply_generation_config(loaded.preset, *found);
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
  }
}

// With fps=F the number of frames depends on a clip's length, and `run` starts if one frame fits.
// The plan is then for the longest clip that fits.
void limit_frames(const config::Preset& preset, plan::PlanInput& input) {
  const video::SamplingOptions sampling = config::read_options(preset).sampling;
  if (!sampling.is_by_length()) return;
  const auto fits = [&input](std::int64_t num_frames) {
    plan::PlanInput tried = input;
    tried.num_frames = num_frames;
    return plan::make_plan(tried).fits;
  };
  if (fits(input.num_frames) || !fits(1)) return;
  std::int64_t most = 1;
  std::int64_t too_many = input.num_frames;
  while (too_many - most > 1) {
    const std::int64_t middle = most + (too_many - most) / 2;
    (fits(middle) ? most : too_many) = middle;
  }
  log_warning("plan", "clips of more than " + counted(most, "frame") + " would fail; --frames " +
                          std::to_string(most) + " takes no more of a clip");
  input.num_frames = most;
}

// A plan's input, and why `run` would not start.
struct PlannedRun {
  plan::PlanInput input;
  std::vector<Obstacle> obstacles;
};

PlannedRun plan_run(const PlanFlags& flags, const Globals& globals) {
  const Machine machine = detect_machine();
  config::LoadedPreset loaded = load_preset(flags.preset, globals.locations, machine);
  config::Preset& preset = loaded.preset;
  const Context context = globals.context(config::num_threads(preset, machine));
  RunCheck check = check_run(context, loaded, flags.preset.prompts);
  adopt_generation_defaults(loaded);
  config::PresetBlueprint found = find_model_shape(loaded, check.obstacles);
  config::apply_max_pixels(preset.video, found.blueprint);
  add_format_obstacle(preset.quantization, found.blueprint, check.obstacles);
  if (!found.note.empty()) log_info("plan", found.note);
  require_decoder(found.blueprint, check.obstacles, "plan for");
  plan::PlanInput input = plan_input(preset, context, found.blueprint);
  if (!preset.speculative.draft_model.empty()) {
    input.draft =
        config::find_blueprint(preset.speculative.draft_model, loaded.locations).blueprint;
    require_decoder(*input.draft, {}, "draft with");
  }
  add_adapters(loaded, found, check.obstacles, input);
  input.frame = parse_frame_size(flags.frame_size);
  const config::GenerationSection& asked = preset.generation;
  const bool is_counted = flags.prompt_tokens.has_value() || check.prompt_tokens.has_value();
  if (!is_counted && (!asked.system.empty() || !asked.examples.empty())) {
    log_warning("plan",
                "the tokens of system prompt and examples are not counted, because the model "
                "cannot be opened here; --prompt-tokens gives their number");
  }
  if (flags.prompt_tokens.has_value()) {
    input.prompt_tokens = *flags.prompt_tokens;
  } else if (check.prompt_tokens.has_value()) {
    set_prompt(*check.prompt_tokens, input);
  }
  input.output_tokens = flags.output_tokens.value_or(input.output_tokens);
  if (preset.device.type == config::DeviceType::kCuda || !flags.card.empty()) {
    choose_card(flags, preset.name, machine, input);
  } else {
    set_host(preset, machine, flags.memory_bytes, input);
  }
  set_rates(flags, preset, machine, input);
  limit_frames(preset, input);
  add_machine_obstacles(flags, preset, machine, input, check.obstacles);
  input.obstacles = obstacle_texts(check.obstacles);
  return {.input = std::move(input), .obstacles = std::move(check.obstacles)};
}

// The exit code with which `run` would end, or 0 if it would start.
int run_exit_code(const plan::Plan& plan, const std::vector<Obstacle>& obstacles) {
  if (!obstacles.empty()) return exit_code_of(obstacles.front().code);
  if (plan.fits) return kExitOk;
  return plan.is_refused_by_options ? kExitUsage : kExitUnavailable;
}

int run_plan(const PlanFlags& flags, const Globals& globals) {
  const PlannedRun planned = plan_run(flags, globals);
  const plan::Plan plan = plan::make_plan(planned.input);
  std::cout << (flags.json ? plan::to_json(plan) : plan::to_text(plan));
  return run_exit_code(plan, planned.obstacles);
}

void add_workload_flags(CLI::App& command, PlanFlags& flags) {
  constexpr const char* kGroup = "Workload";
  const CLI::Validator tokens = in_range(std::int64_t{1}, std::int64_t{1} << 20);
  command.add_option("--output-tokens", flags.output_tokens, "tokens of a caption")
      ->check(tokens)
      ->type_name(kNumberType)
      ->default_str("max_new_tokens")
      ->group(kGroup);
  command
      .add_option("--prompt-tokens", flags.prompt_tokens,
                  "tokens of text in the prompt\n"
                  "Without it: those of the prompt where the model is here, else 64.")
      ->check(tokens)
      ->type_name(kNumberType)
      ->default_str("counted")
      ->group(kGroup);
  command
      .add_option("--frame-size", flags.frame_size,
                  "pixels of the videos; for models that keep them\n"
                  "The vision tokens of Qwen2.5-VL and Qwen3-VL depend on it.")
      ->type_name("WxH")
      ->default_str(flags.frame_size)
      ->group(kGroup);
}

void add_device_flags(CLI::App& command, PlanFlags& flags) {
  constexpr const char* kGroup = "Planned machine";
  std::vector<std::string> cards;
  for (const std::string_view name : plan::card_names()) cards.emplace_back(name);
  command.add_option("--card", flags.card, "plan for this card")
      ->type_name(join(cards, "|"))
      ->group(kGroup);
  command
      .add_option("--bandwidth", flags.bandwidth_gb_s,
                  "memory bandwidth in GB/s\nWithout it: the card's data sheet; on the CPU, "
                  "measured here and now.")
      ->check(in_range(1e-3, 1e9))
      ->type_name("GB/s")
      ->default_str("measured")
      ->group(kGroup);
  command
      .add_option("--flops", flags.gflops,
                  "arithmetic in GFLOP/s\nWithout it: the card's data sheet; on the CPU, "
                  "measured here and now.")
      ->check(in_range(1e-3, 1e12))
      ->type_name("GFLOP/s")
      ->default_str("measured")
      ->group(kGroup);
  constexpr std::int64_t kMinMemoryBytes = 1 << 20;
  add_size(command, "--memory", flags.memory_bytes, kMinMemoryBytes, "memory of the device")
      ->default_str("what is there")
      ->group(kGroup);
}

}  // namespace

void add_plan_command(CLI::App& root, const Globals& globals, int& exit_code) {
  CLI::App* command = root.add_subcommand(
      "plan",
      "What will fit and how fast it can be, before loading anything\n"
      "Reads a preset and a model's config.json, no weights, and prints bytes of weights, KV per "
      "token, activations, pages, sequences at a time, tokens per video, predicted rates and the "
      "limit that binds. Exit code 0 means that run would start on this machine; another is the "
      "one "
      "with which run would end.");
  auto flags = std::make_shared<PlanFlags>();
  add_workload_flags(*command, *flags);
  add_device_flags(*command, *flags);
  command->add_flag("--json", flags->json, "one JSON object in place of the table")
      ->group("Output");
  add_preset_flags(*command, flags->preset);
  command->footer(
      "caption-cli plan\n"
      "caption-cli plan --preset l4\n"
      "caption-cli plan --card t4 --model qwen3-8b --dtype nf4 --memory 14GiB");
  command->callback([flags, &globals, &exit_code] { exit_code = run_plan(*flags, globals); });
}

}  // namespace caption::cli
