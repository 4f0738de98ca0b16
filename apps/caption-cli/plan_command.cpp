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
#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/join.h"
#include "base/log.h"
#include "bench/process_memory.h"
#include "bench/roofline.h"
#include "config/generation_defaults.h"
#include "config/preset_blueprint.h"
#include "config/resolve.h"
#include "exit_codes.h"
#include "globals.h"
#include "option_types.h"
#include "pipeline/pipeline.h"
#include "plan/cards.h"
#include "plan/plan.h"
#include "preset_flags.h"
#include "run_obstacles.h"

namespace caption::cli {
namespace {

// Assumed text tokens of a prompt when the model's tokenizer is not available.
constexpr std::int64_t kUsualPromptTokens = 64;

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

std::int64_t memory_of(const PlanFlags& flags, std::int64_t device_bytes) {
  return flags.memory_bytes.value_or(device_bytes);
}

// Sets the card for which a CUDA preset is planned: --card, the card after which the preset is
// named, or the card of this machine.
void set_card(const PlanFlags& flags, const std::string& preset, const Machine& machine,
              plan::PlanInput& input) {
  // Approximate memory of the CUDA context and cuBLAS.
  constexpr std::int64_t kContextBytes = 600LL << 20;
  input.device = plan::PlanDevice::kCard;
  input.fixed_bytes = kContextBytes;
  const std::string wanted = flags.card.empty() ? preset : flags.card;
  if (const auto card = plan::find_card(wanted)) {
    input.device_name = card->name;
    input.memory_bytes = memory_of(flags, card->memory_bytes);
    input.rates = {.bytes_per_s = card->bytes_per_s,
                   .flops_per_s = card->flops_per_s,
                   .source = "data sheet of an " + std::string(card->name)};
    return;
  }
  const std::string names = join(plan::card_names());
  if (!flags.card.empty()) {
    throw Error(ErrorCode::kUsage,
                "--card: no card is known as \"" + flags.card + "\"; there are " + names);
  }
  if (machine.cuda_devices.empty()) {
    throw Error(ErrorCode::kUsage, "plan: preset " + preset +
                                       " is for a CUDA device, and none is here; name a card with "
                                       "--card: " +
                                       names);
  }
  input.device_name = machine.cuda_devices.front().name;
  input.memory_bytes = memory_of(flags, machine.cuda_devices.front().memory_bytes);
}

void set_host(const PlanFlags& flags, const config::Preset& preset, const Machine& machine,
              plan::PlanInput& input) {
  input.device = plan::PlanDevice::kHost;
  input.device_name = machine.cpu_model;
  input.memory_bytes = memory_of(flags, machine.memory_bytes);
  input.fixed_bytes = bench::process_memory().resident_bytes;
  const model::DecoderSpec& text = *input.model.text;
  const std::int64_t held_bytes =
      model::placed_bytes(input.context, input.model, input.weights) +
      model::decoder_scratch_bytes(text, input.max_num_batched_tokens, input.max_num_seqs);
  try {
    input.kv_cache_bytes =
        config::plan_kv_cache_bytes(preset, text, held_bytes, input.memory_bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    input.kv_cache_bytes = 0;  // the plan reports the reason
  }
}

// Takes half a second on the threads that the engine would use.
void calibrate(const config::Preset& preset, const Machine& machine, plan::PlanInput& input) {
  // More threads than CPUs measure the scheduler of the system, not the memory.
  const int num_threads = std::min(config::num_threads(preset, machine), machine.num_cpus);
  ThreadPool pool(pipeline::plan_threads(num_threads).engine);
  Stream stream(input.context, pool);
  bench::RooflineOptions options;
  // Where little memory is left, less of it is read, and caches may raise the rate.
  constexpr std::int64_t kLeastBufferBytes = 1LL << 20;
  options.buffer_bytes =
      std::clamp(machine.memory_bytes / 8, kLeastBufferBytes, options.buffer_bytes);
  const bench::Roofline roofline = bench::measure_roofline(stream, options);
  const bool is_f32 = input.weights == weights::WeightFormat::kF32;
  input.rates = {.bytes_per_s = roofline.read_bytes_per_s,
                 .flops_per_s = is_f32 ? roofline.f32_flops_per_s : roofline.flops_per_s,
                 .source = "measured here and now on " + counted(roofline.num_threads, "thread") +
                           ", " + (is_f32 ? "f32" : std::string(roofline.arithmetic))};
}

void set_rates(const PlanFlags& flags, const config::Preset& preset, const Machine& machine,
               plan::PlanInput& input) {
  const bool is_given = flags.bandwidth_gb_s.has_value() && flags.gflops.has_value();
  if (input.device == plan::PlanDevice::kHost && !is_given) calibrate(preset, machine, input);
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

void set_model(const config::LoadedPreset& loaded, plan::PlanInput& input) {
  const config::Locations& locations = loaded.locations;
  const config::PresetBlueprint found =
      config::find_preset_blueprint(loaded.preset.model, locations);
  if (!found.note.empty()) log_info("plan", found.note);
  if (!found.blueprint.text.has_value()) {
    throw Error(ErrorCode::kBadModel, found.blueprint.name + ": has no decoder to plan for");
  }
  input.model = found.blueprint;
  if (loaded.preset.speculative.draft_model.empty()) return;
  input.draft = config::find_blueprint(loaded.preset.speculative.draft_model, locations).blueprint;
  if (!input.draft->text.has_value()) {
    throw Error(ErrorCode::kBadModel, input.draft->name + ": has no decoder to draft with");
  }
}

// Lists what keeps `run` from starting here, including that the plan is for another machine.
std::vector<std::string> find_obstacles(const PlanFlags& flags, const config::LoadedPreset& loaded,
                                        const Machine& machine, const plan::PlanInput& input,
                                        std::vector<std::string> obstacles) {
  const bool is_cuda_preset = loaded.preset.device.type == config::DeviceType::kCuda;
  if (input.device == plan::PlanDevice::kCard && !is_cuda_preset) {
    obstacles.push_back("planned for an " + input.device_name + "; the preset runs on the CPU");
  }
  if (flags.memory_bytes.has_value() && input.device == plan::PlanDevice::kHost &&
      input.memory_bytes > machine.memory_bytes) {
    obstacles.emplace_back("planned for more memory than is here");
  }
  return obstacles;
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

plan::PlanInput make_input(const PlanFlags& flags, const Globals& globals) {
  const Machine machine = detect_machine();
  config::LoadedPreset loaded = load_preset(flags.preset, globals.locations, machine);
  config::Preset& preset = loaded.preset;
  const Context context = globals.context(config::num_threads(preset, machine));
  RunCheck check = check_run(context, loaded, flags.preset.prompts);
  adopt_generation_defaults(loaded);
  plan::PlanInput input;
  input.context = context;
  input.preset = preset.name;
  set_model(loaded, input);
  input.memory_utilization = preset.device.memory_utilization;
  input.weights = config::weight_format(preset.quantization);
  input.kv_dtype = config::kv_dtype(preset.quantization);
  input.is_kv_cache_given = preset.engine.kv_cache_bytes > 0;
  if (input.is_kv_cache_given) input.kv_cache_bytes = preset.engine.kv_cache_bytes;
  input.max_num_seqs = preset.engine.max_num_seqs;
  input.max_num_batched_tokens = preset.engine.max_num_batched_tokens;
  input.chunked_prefill = preset.engine.chunked_prefill;
  input.num_beams = preset.generation.num_beams;
  input.is_prompt_compressed = preset.engine.attention != config::CompressionMode::kNone;
  input.num_frames = preset.video.num_frames;
  input.frame = parse_frame_size(flags.frame_size);
  input.prompt_tokens =
      flags.prompt_tokens.value_or(check.prompt_tokens.value_or(kUsualPromptTokens));
  input.output_tokens = flags.output_tokens.value_or(preset.generation.max_new_tokens);
  const pipeline::Options queues;
  input.queue_bytes = queues.frame_queue_bytes + queues.vision_queue_bytes;
  const bool is_card = preset.device.type == config::DeviceType::kCuda || !flags.card.empty();
  if (is_card) {
    set_card(flags, preset.name, machine, input);
  } else {
    set_host(flags, preset, machine, input);
  }
  set_rates(flags, preset, machine, input);
  limit_frames(preset, input);
  input.obstacles = find_obstacles(flags, loaded, machine, input, std::move(check.obstacles));
  return input;
}

int run_plan(const PlanFlags& flags, const Globals& globals) {
  const plan::Plan plan = plan::make_plan(make_input(flags, globals));
  std::cout << (flags.json ? plan::to_json(plan) : plan::to_text(plan));
  return plan.can_run() ? kExitOk : kExitUnavailable;
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
                  "pixels of the videos; for models that keep them")
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
      "limit that binds. Exit code 0 means that run would start on this machine, 4 that it would "
      "not.");
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
