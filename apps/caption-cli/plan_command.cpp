#include "plan_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "backend/machine.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/join.h"
#include "base/log.h"
#include "bench/format_chart.h"
#include "config/devices.h"
#include "config/plan_input.h"
#include "config/resolve.h"
#include "config/weight_choice.h"
#include "exit_codes.h"
#include "globals.h"
#include "option_types.h"
#include "plan/cards.h"
#include "plan/plan.h"
#include "planned_run.h"
#include "preset_flags.h"
#include "write_text.h"

namespace caption::cli {
namespace {

struct PlanFlags {
  PresetFlags preset;
  config::PlanAssumptions assumed;
  std::optional<double> bandwidth_gb_s;
  std::optional<double> gflops;
  std::string frame_size = "1280x720";
  bool is_frame_size_given = false;
  bool json = false;
  bool fit = false;
  std::optional<std::int64_t> batch;
  std::string svg;
};

// The whole of `text` as a number of pixels; std::nullopt for another text.
std::optional<std::int64_t> parse_pixels(std::string_view text) {
  constexpr std::int64_t kMostPixels = 99'999;
  std::int64_t pixels = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pixels);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  if (!is_whole || pixels < 1 || pixels > kMostPixels) return std::nullopt;
  return pixels;
}

model::FrameSize parse_frame_size(const std::string& text) {
  const std::size_t cross = text.find('x');
  if (cross != std::string::npos) {
    const auto width = parse_pixels(std::string_view(text).substr(0, cross));
    const auto height = parse_pixels(std::string_view(text).substr(cross + 1));
    if (width && height) return {.width_px = *width, .height_px = *height};
  }
  throw Error(ErrorCode::kUsage, "--frame-size: \"" + text +
                                     "\" is no size in pixels such as 1280x720, of at most 99999 "
                                     "either way");
}

// A run with what is planned for it.
struct Planning {
  RunCheck check;
  config::RunPlanner planner;
};

// Adds what only the plan finds: adapters that cannot be read, a device that cannot multiply by the
// weights, and that the plan is for another machine than this one.
void add_plan_obstacles(const PlanFlags& flags, const plan::PlanInput& input, Planning& planning) {
  std::vector<Obstacle>& obstacles = planning.check.obstacles;
  const auto add_unknown = [&](ErrorCode code, const std::string& text) {
    const bool is_known =
        std::any_of(obstacles.begin(), obstacles.end(),
                    [&](const Obstacle& obstacle) { return obstacle.text == text; });
    if (!is_known) obstacles.push_back({.code = code, .text = text});
  };
  if (const std::optional<Error>& error = planning.planner.adapter_error()) {
    add_unknown(error->code(), error->what());
  }
  if (const std::optional<std::string> obstacle = config::find_format_obstacle(input)) {
    // That of the CPU, which the preset runs on, says the same of another device.
    plan::PlanInput on_host = input;
    on_host.device = plan::PlanDevice::kHost;
    const std::optional<std::string> of_host = config::find_format_obstacle(on_host);
    std::erase_if(obstacles, [&](const Obstacle& one) { return one.text == of_host; });
    add_unknown(ErrorCode::kUnavailable, *obstacle);
  }
  const bool is_cuda_preset = planning.planner.preset().device.type == config::DeviceType::kCuda;
  if (input.device == plan::PlanDevice::kCard && !is_cuda_preset) {
    obstacles.insert(obstacles.begin(), {.code = ErrorCode::kUnavailable,
                                         .text = "planned for an " + input.device_name +
                                                 "; the preset runs on the CPU"});
  }
  const config::PlannedRun& run = planning.planner.run();
  if (is_cuda_preset && !run.machine.cuda_devices.empty()) {
    try {
      config::chosen_gpus(run.loaded.preset, run.machine);
    } catch (const Error& error) {
      obstacles.push_back({.code = error.code(), .text = error.what()});
    }
  }
  if (flags.assumed.memory_bytes.has_value() && input.device == plan::PlanDevice::kHost &&
      input.memory_bytes > run.machine.memory_bytes) {
    obstacles.push_back(
        {.code = ErrorCode::kOutOfMemory, .text = "planned for more memory than is here"});
  }
}

// Warns of what the plan does not count.
void warn_of_uncounted(const PlanFlags& flags, const config::PlannedRun& run) {
  const config::Preset& preset = run.loaded.preset;
  if (!run.found.note.empty()) {
    log_info("plan", run.found.note);
    if (!preset.model.adapter.empty()) {
      log_warning("plan", "adapters are not counted, because the model's files are not here");
    }
  }
  const config::GenerationSection& asked = preset.generation;
  const bool is_counted = flags.assumed.prompt_tokens.has_value() || run.prompt_tokens.has_value();
  if (!is_counted && (!asked.system.empty() || !asked.examples.empty())) {
    log_warning("plan",
                "the tokens of system prompt and examples are not counted, because the model "
                "cannot be opened here; --prompt-tokens gives their number");
  }
}

// Warns of options that change nothing of the plan or of its run.
void warn_of_idle(const PlanFlags& flags, const config::PlannedRun& run) {
  const bool is_card =
      run.loaded.preset.device.type == config::DeviceType::kCuda || !flags.assumed.card.empty();
  warn_of_unused("plan", run.loaded, flags.preset.overrides,
                 {.device = is_card ? Device::cuda(0) : Device::kCpu});
  const std::optional<model::VisionSpec>& tower = run.found.blueprint.vision;
  const bool keeps_sizes = tower.has_value() && tower->resize.has_value();
  if (flags.is_frame_size_given && !keeps_sizes) {
    log_warning("plan",
                "--frame-size has no effect with this --model, which resizes frames of every size "
                "to the same one");
  }
  if (flags.assumed.prompt_tokens.has_value() && !flags.preset.prompts.empty()) {
    log_warning("plan", "--prompt has no effect beside --prompt-tokens, which counts in its place");
  }
}

// Says that the figures are of one device, where a run would use several.
void say_devices(const config::PlannedRun& run) {
  const int count = config::num_devices(run.loaded.preset, run.machine);
  if (count == 1) return;
  log_info("plan", "bytes and speeds are of each of " + std::to_string(count) +
                       " GPUs; the speeds of the GPUs add up");
}

Planning make_planning(const PlanFlags& flags, const Globals& globals) {
  const Machine machine = detect_machine();
  config::LoadedPreset loaded = load_preset(flags.preset, globals.locations, machine);
  if (flags.fit) loaded.preset.quantization.weights = config::WeightFormat::kAuto;
  const Context context = globals.context(config::num_threads(loaded.preset, machine));
  CheckedRun checked = check_planned_run(context, machine, std::move(loaded), flags.preset.prompts);
  warn_of_uncounted(flags, checked.run);
  warn_of_idle(flags, checked.run);
  say_devices(checked.run);
  config::Preset& preset = checked.run.loaded.preset;
  if (flags.batch.has_value()) {
    preset.engine.max_num_seqs = *flags.batch * preset.generation.num_beams;
  }
  config::PlanAssumptions assumed = flags.assumed;
  assumed.frame = parse_frame_size(flags.frame_size);
  if (flags.bandwidth_gb_s.has_value()) assumed.bytes_per_s = *flags.bandwidth_gb_s * 1e9;
  if (flags.gflops.has_value()) assumed.flops_per_s = *flags.gflops * 1e9;
  return {.check = std::move(checked.check),
          .planner = config::RunPlanner(std::move(checked.run), std::move(assumed))};
}

// The exit code with which `run` would end, or 0 if it would start.
int run_exit_code(const plan::Plan& plan, const std::vector<Obstacle>& obstacles) {
  if (!obstacles.empty()) return exit_code_of(obstacles.front().code);
  if (plan.fits) return kExitOk;
  return plan.is_refused_by_options() ? kExitUsage : kExitUnavailable;
}

// The format that a plan is for: that of the preset, or the one that `auto` would choose.
config::WeightFormat planned_format(Planning& planning) {
  const config::WeightFormat weights = planning.planner.preset().quantization.weights;
  if (weights != config::WeightFormat::kAuto) return weights;
  const plan::FormatReport report = compare_formats(planning.planner, planning.check.model.get());
  log_info("plan", report.choice.index.has_value() ? "weights as " + report.choice.reason
                                                   : report.choice.reason);
  return config::weights_of(report.planned());
}

int plan_one(const PlanFlags& flags, Planning& planning) {
  const config::WeightFormat format = planned_format(planning);
  plan::PlanInput input = planning.planner.input(format);
  const config::Preset& preset = planning.planner.preset();
  if (config::limit_frames(preset, input)) {
    log_warning("plan", "clips of more than " + counted(input.num_frames, "frame") +
                            " would fail; --frames " + std::to_string(input.num_frames) +
                            " takes no more of a clip");
  }
  config::QuantizationSection quantization = preset.quantization;
  quantization.weights = format;
  if (const auto error =
          config::find_rounded_codes(quantization, planning.planner.run().found.blueprint)) {
    planning.check.obstacles.push_back({.code = error->code(), .text = error->what()});
  }
  add_plan_obstacles(flags, input, planning);
  input.obstacles = obstacle_texts(planning.check.obstacles);
  const plan::Plan plan = plan::make_plan(input);
  std::cout << (flags.json ? plan::to_json(plan) : plan::to_text(plan));
  return run_exit_code(plan, planning.check.obstacles);
}

int compare_all(const PlanFlags& flags, Planning& planning) {
  plan::FormatReport report = compare_formats(planning.planner, planning.check.model.get(),
                                              config::ComparedFormats::kHeldAndMade);
  add_plan_obstacles(flags, report.rows.front().plan.input, planning);
  for (plan::FormatRow& row : report.rows) {
    row.plan.input.obstacles = obstacle_texts(planning.check.obstacles);
  }
  // stdout carries one report: this one, unless the chart was requested there.
  if (flags.svg != "-") std::cout << (flags.json ? plan::to_json(report) : plan::to_text(report));
  if (!flags.svg.empty()) write_text(flags.svg, bench::to_svg(bench::format_chart(report)));
  return run_exit_code(report.planned().plan, planning.check.obstacles);
}

// Throws Error(kUsage) for flags that mean nothing together.
void check_flags(const PlanFlags& flags) {
  if (!flags.fit && (flags.batch.has_value() || !flags.svg.empty())) {
    throw Error(ErrorCode::kUsage, std::string("plan: ") +
                                       (flags.batch.has_value() ? "--batch" : "--svg") +
                                       " goes with --fit, which compares formats of weights");
  }
  const bool has_format =
      std::any_of(flags.preset.overrides.begin(), flags.preset.overrides.end(),
                  [](const config::Override& one) {
                    return one.key == "quantization.weights" && one.value != "auto";
                  });
  if (flags.fit && has_format) {
    throw Error(ErrorCode::kUsage,
                "plan: --fit compares every format of weights; leave --dtype out, or --fit");
  }
  if (flags.json) require_two_files("--json", "-", "--svg", flags.svg);
  require_replaceable(flags.svg, kSvgBegin, {});
}

int run_plan(const PlanFlags& flags, const Globals& globals) {
  check_flags(flags);
  Planning planning = make_planning(flags, globals);
  return flags.fit ? compare_all(flags, planning) : plan_one(flags, planning);
}

void add_workload_flags(CLI::App& command, PlanFlags& flags) {
  constexpr const char* kGroup = "Workload";
  const CLI::Validator tokens = in_range(std::int64_t{1}, std::int64_t{1} << 20);
  command.add_option("--output-tokens", flags.assumed.output_tokens, "tokens of a caption")
      ->check(tokens)
      ->type_name(kNumberType)
      ->default_str("--max-new-tokens")
      ->group(kGroup);
  command
      .add_option("--prompt-tokens", flags.assumed.prompt_tokens,
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
  command.add_option("--card", flags.assumed.card, "plan for this card")
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
  add_size(command, "--memory", flags.assumed.memory_bytes, kMinMemoryBytes, "memory of the device")
      ->default_str("what is there")
      ->group(kGroup);
}

void add_fit_flags(CLI::App& command, PlanFlags& flags) {
  constexpr const char* kGroup = "Formats of weights";
  command
      .add_flag("--fit", flags.fit,
                "compare every format of the weights, and choose\n"
                "For each format of --dtype that the model can be held in, and each checkpoint "
                "that quantize "
                "could make of it: bytes, predicted speed, "
                "the measured price (of bench --price weights), whether it fits, and whether it is "
                "on the Pareto front of memory, speed and price. The choice, with its reason, is "
                "the one of --dtype auto.")
      ->group(kGroup);
  command.add_option("--batch", flags.batch, "with --fit: most videos at a time")
      ->check(in_range(std::int64_t{1}, std::int64_t{4096}))
      ->type_name(kNumberType)
      ->default_str("--max-num-seqs")
      ->group(kGroup);
  command.add_option("--svg", flags.svg, "with --fit: a chart of speed over memory")
      ->type_name("FILE.svg")
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
  add_fit_flags(*command, *flags);
  command->add_flag("--json", flags->json, "one JSON object in place of the table")
      ->group("Output");
  add_preset_flags(*command, flags->preset);
  command->footer(
      "caption-cli plan --preset l4\n"
      "caption-cli plan --fit --batch 8\n"
      "caption-cli plan --card t4 --model qwen3-8b --dtype nf4 --memory 14GiB");
  command->callback([command, flags, &globals, &exit_code] {
    flags->is_frame_size_given = command->count("--frame-size") > 0;
    exit_code = run_plan(*flags, globals);
  });
}

}  // namespace caption::cli
