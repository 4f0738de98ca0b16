#include "bench_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/machine.h"
#include "backend/stream.h"
#include "backend/thread_pool.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/open_file.h"
#include "bench/bench_report.h"
#include "bench/cuda_prediction.h"
#include "bench/draft_bench.h"
#include "bench/kernel_bench.h"
#include "bench/line_chart.h"
#include "bench/loading_bench.h"
#include "bench/run_workload.h"
#include "bench/tower_bench.h"
#include "bench_checks.h"
#include "bench_device.h"
#include "bench_drafts.h"
#include "bench_flags.h"
#include "bench_steps.h"
#include "bench_videos.h"
#include "bench_workloads.h"
#include "config/pipeline_options.h"
#include "config/preset_blueprint.h"
#include "config/resolve.h"
#include "config/resources.h"
#include "exit_codes.h"
#include "globals.h"
#include "model/blueprint.h"
#include "model/model_files.h"
#include "model/random_model.h"
#include "plan/known_models.h"
#include "planned_run.h"
#include "preset_flags.h"
#include "write_text.h"

namespace caption::cli {
namespace {

// The decoder under test and its description.
struct Subject {
  std::unique_ptr<model::CaptionModel> model;  // set for a preset
  std::unique_ptr<model::Decoder> random;      // set for a shape
  model::Blueprint blueprint;
  std::string name;
  std::int64_t weight_bytes = 0;

  model::Decoder& decoder() const { return random != nullptr ? *random : model->decoder(); }
  const model::DecoderSpec& shape() const { return blueprint.text.value(); }
};

model::Blueprint find_known(const std::string& name) {
  const std::optional<model::Blueprint> known = plan::find_known_model(name);
  CAPTION_CHECK(known.has_value(), "--shape was checked while parsing");
  return *known;
}

Subject open_random(const BenchDevice& device, const std::string& name,
                    const config::Preset& preset) {
  Subject subject;
  subject.blueprint = model::decoder_blueprint(find_known(name).text.value());
  subject.name = name + " (random weights)";
  const weights::WeightFormat format = config::weight_format(preset.quantization);
  subject.weight_bytes = model::placed_bytes(device.context, subject.blueprint, format);
  config::require_least_pages(preset, subject.shape());
  // Throws before the weights fill the memory where they leave no room for pages.
  config::plan_kv_cache_bytes(preset, subject.shape(), subject.weight_bytes, device.memory_bytes);
  log_info("bench", "making random weights of " + name);
  ThreadPool pool(device.context.num_threads);
  Stream stream(device.context, pool);
  std::vector<std::int32_t> faint;
  if (preset.speculative.method == config::DraftMethod::kSelf) {
    faint = faint_layers(subject.shape().num_layers);
  }
  subject.random = model::make_random_decoder(
      stream, subject.shape(), format, static_cast<std::uint64_t>(preset.generation.seed), faint);
  return subject;
}

Subject open_subject(const BenchDevice& device, const BenchFlags& flags,
                     const config::LoadedPreset& loaded) {
  if (!flags.shape.empty()) {
    if (flags.price == PriceOf::kDrafts) {
      require_draft_shape(loaded.preset, find_known(flags.shape).text.value().vocab);
    }
    return open_random(device, flags.shape, loaded.preset);
  }
  config::require_available(loaded.preset, has_cuda_kernels());
  const config::Locations& locations = loaded.locations;
  Subject subject;
  const config::PresetBlueprint found =
      config::find_preset_blueprint(loaded.preset.model, locations);
  if (!found.note.empty()) {
    throw Error(ErrorCode::kBadModel, found.note +
                                          "; bench --shape NAME measures it with random "
                                          "weights");
  }
  subject.blueprint = found.blueprint;
  if (device.context.device.is_cuda()) model::hold_on_gpu(subject.blueprint);
  subject.name =
      loaded.preset.model.is_composed ? loaded.preset.model.llm : loaded.preset.model.path;
  subject.model = config::open_model(device.context, loaded.preset, locations);
  subject.weight_bytes = subject.model->weight_bytes();
  return subject;
}

engine::EngineOptions make_engine_options(const BenchDevice& device, const config::Preset& preset,
                                          const Subject& subject, std::int32_t largest_batch) {
  config::require_least_pages(preset, subject.decoder().spec());
  config::Preset largest = preset;
  largest.engine.max_num_seqs = largest_batch;
  const std::int64_t kv_cache_bytes =
      config::kv_cache_bytes(largest, {.device = device.context.device,
                                       .memory_bytes = device.memory_bytes,
                                       .weight_bytes = subject.weight_bytes,
                                       .decoder = subject.decoder()});
  engine::EngineOptions options =
      config::engine_options(device.context, preset, kv_cache_bytes, Sha256{});
  options.disk = {};  // a run must not find pages that another run stored
  return options;
}

// Writes the result where it is wanted and returns the exit code.
template <class What, class Result>
int write_result(const BenchFlags& flags, const What& subject, const Result& result) {
  // stdout carries one report: the table, unless another one was requested there.
  if (flags.json != "-" && flags.svg != "-") std::cout << bench::to_table(subject, result);
  if (!flags.json.empty()) write_text(flags.json, bench::to_json(subject, result));
  return kExitOk;
}

int run_synthetic(const BenchDevice& device, const BenchFlags& flags,
                  const config::LoadedPreset& loaded) {
  const config::Preset& preset = loaded.preset;
  const Subject subject = open_subject(device, flags, loaded);
  const std::int32_t largest_batch =
      flags.sweep.empty() ? static_cast<std::int32_t>(preset.engine.max_num_seqs)
                          : *std::max_element(flags.sweep.begin(), flags.sweep.end());
  const engine::EngineOptions options = make_engine_options(device, preset, subject, largest_batch);
  const auto seed = static_cast<std::uint64_t>(preset.generation.seed);
  ThreadPool pool(device.context.num_threads);
  Stream stream(device.context, pool);
  bench::CompareOptions compare_options;
  compare_options.repeat = flags.repeat;
  compare_options.seed = seed;
  compare_options.has_profile = flags.profile;
  compare_options.on_run = [](const std::string& what) { log_info("bench", what); };
  const bench::DecoderCosts costs = {.model = subject.blueprint,
                                     .weights = config::weight_format(preset.quantization)};
  const bench::Comparison comparison =
      bench::compare(subject.decoder(), stream, costs, make_workload(flags, largest_batch, seed),
                     make_variants(flags, options), compare_options);

  const bench::Subject what = {
      .model = subject.name, .setting = describe_setting(costs.weights, options.kv_dtype, device)};
  if (!flags.svg.empty()) {
    write_text(flags.svg, bench::to_svg(bench::throughput_chart(what, comparison)));
  }
  return write_result(flags, what, comparison);
}

int run_planted_drafts(const BenchDevice& device, const BenchFlags& flags,
                       const config::LoadedPreset& loaded) {
  const config::Preset& preset = loaded.preset;
  const Subject subject = open_subject(device, flags, loaded);
  bench::DraftBenchOptions options;
  if (!flags.sweep.empty()) options.batches = flags.sweep;
  options.engine = make_engine_options(
      device, preset, subject, *std::max_element(options.batches.begin(), options.batches.end()));
  if (is_given(flags, "--prompt-tokens")) options.prompt_tokens = flags.prompt_tokens;
  if (is_given(flags, "--output-tokens")) options.output_tokens = flags.output_tokens;
  options.repeat = flags.repeat;
  options.seed = static_cast<std::uint64_t>(preset.generation.seed);
  options.on_run = [](const std::string& what) { log_info("bench", what); };
  const std::string what =
      subject.name + "; " +
      describe_setting(config::weight_format(preset.quantization), options.engine.kv_dtype, device);
  const config::DraftMethod method = preset.speculative.method;
  if (method == config::DraftMethod::kSelf || method == config::DraftMethod::kModel) {
    return bench_drafts_of_model({.device = device,
                                  .preset = preset,
                                  .decoder = subject.decoder(),
                                  .weight_bytes = subject.weight_bytes,
                                  .description = what,
                                  .json = flags.json},
                                 std::move(options));
  }
  ThreadPool pool(device.context.num_threads);
  Stream stream(device.context, pool);
  const std::vector<bench::DraftRow> rows = bench::bench_drafts(subject.decoder(), stream, options);
  return write_result(flags, what, rows);
}

int run_kernels(const BenchDevice& device, const BenchFlags& flags,
                const config::LoadedPreset& loaded) {
  const config::Preset& preset = loaded.preset;
  const bool is_named = !flags.shape.empty();
  const model::Blueprint shape =
      is_named ? find_known(flags.shape)
               : config::find_preset_blueprint(preset.model, loaded.locations).blueprint;
  if (device.gpu.has_value()) {
    return bench_gpu_steps(flags, device, preset, is_named ? flags.shape : shape.name,
                           shape.text.value());
  }
  ThreadPool pool(device.context.num_threads);
  Stream stream(device.context, pool);
  bench::KernelBenchOptions options;
  if (is_given(flags, "--prompt-tokens")) options.context_tokens = flags.prompt_tokens;
  if (!flags.sweep.empty()) options.batches.assign(flags.sweep.begin(), flags.sweep.end());
  options.on_row = [](const bench::KernelRow& row) {
    log_info("bench", row.operation + ", " + row.setting + ", " + counted(row.tokens, "token"));
  };
  const bench::KernelBench result = bench::bench_kernels(stream, shape, options);
  const std::string subject = (is_named ? flags.shape : preset.name) + "; " + device.description;
  return write_result(flags, subject, result);
}

// Encodes frames with the tower of a shape.
int run_tower(const BenchDevice& device, const BenchFlags& flags,
              const config::LoadedPreset& loaded) {
  const model::Blueprint known = find_known(flags.shape);
  if (!known.vision.has_value()) {
    throw Error(ErrorCode::kUsage, "bench: --tower: " + flags.shape + " has no vision tower");
  }
  const std::int64_t fixed_frames = device.gpu.has_value() ? 64 : 2;
  constexpr std::int64_t kAnyFrames = 8;  // Qwen towers encode the frames of a clip in pairs
  const model::VisionSpec& shape = known.vision.value();
  const config::Preset& preset = loaded.preset;
  ThreadPool pool(device.context.num_threads);
  Stream stream(device.context, pool);
  bench::TowerBenchOptions options;
  options.num_frames = shape.image_px > 0 ? fixed_frames : kAnyFrames;
  options.out = known.text ? known.text->hidden : 0;
  options.repeat = num_passes(flags);
  options.seed = static_cast<std::uint64_t>(preset.generation.seed);
  const bench::TowerBench result =
      bench::bench_tower(stream, shape, config::weight_format(preset.quantization), options);
  const std::string subject =
      flags.shape + " (random weights); " +
      describe_setting(config::weight_format(preset.quantization), std::nullopt, device);
  return write_result(flags, subject, result);
}

// The weight files of the preset's model.
std::vector<std::filesystem::path> weight_files(const config::LoadedPreset& loaded) {
  const config::ModelSection& model = loaded.preset.model;
  std::vector<std::string> names = {model.path};
  if (model.is_composed) names = {model.vision, model.projector, model.llm};
  std::vector<std::filesystem::path> paths;
  for (const std::string& name : names) {
    const std::filesystem::path found = config::find_model(name, loaded.locations);
    for (std::filesystem::path& path : model::read_weight_files(found).paths) {
      if (std::find(paths.begin(), paths.end(), path) == paths.end()) {
        paths.push_back(std::move(path));
      }
    }
  }
  return paths;
}

int run_loading(const BenchDevice& device, const BenchFlags& flags,
                const config::LoadedPreset& loaded) {
  const config::Preset& preset = loaded.preset;
  const Context& context = device.context;
  config::require_available(preset, has_cuda_kernels());
  const auto open = [&] { return config::open_model(context, preset, loaded.locations); };
  const bench::LoadingBench result =
      bench::bench_loading(context, weight_files(loaded), open, {.repeat = num_passes(flags)});
  const std::string subject =
      (preset.model.is_composed ? preset.model.llm : preset.model.path) + ", " +
      describe_setting(config::weight_format(preset.quantization), std::nullopt, device);
  return write_result(flags, subject, result);
}

int run_videos(const BenchDevice& device, const BenchFlags& flags,
               const config::LoadedPreset& loaded, const Machine& machine) {
  return bench_videos({.paths = flags.videos,
                       .prompts = flags.preset.prompts,
                       .references = flags.references,
                       .price = flags.price,
                       .price_positions = flags.price_positions > 0 ? flags.price_positions
                                                                    : kDefaultPricePositions,
                       .price_base = flags.price_base,
                       .repeat = flags.repeat,
                       .json = flags.json},
                      device, loaded, machine);
}

int print_prediction(const BenchFlags& flags, const config::Preset& preset) {
  const model::Blueprint known = find_known(flags.shape);
  std::cout << (known.text.has_value()
                    ? bench::prediction_table(flags.predict, flags.shape, *known.text,
                                              config::weight_format(preset.quantization))
                    : bench::tower_prediction_table(flags.predict, flags.shape,
                                                    known.vision.value()));
  return kExitOk;
}

// `--model qwen3-0.6b` means `--shape qwen3-0.6b` if there is no such folder.
bool names_a_shape(const config::ModelSection& model) {
  const std::vector<std::string> names = plan::known_model_names();
  return !model.is_composed && !is_present(model.path) &&
         std::find(names.begin(), names.end(), model.path) != names.end();
}

// Throws Error(kUsage) where `auto` has nothing to choose by: a shape has no prices, and the rates
// of its formats are what is measured.
void require_named_weights(const BenchFlags& flags, const config::Preset& preset) {
  const bool is_auto = preset.quantization.weights == config::WeightFormat::kAuto;
  if (flags.shape.empty() || (flags.kernels && flags.predict.empty()) || !is_auto) return;
  throw Error(ErrorCode::kUsage,
              "bench: --dtype auto chooses for a model's files; --shape needs a format's name");
}

// The file of --examples, like the folder of --adapter, is read only where captions are made.
config::LoadedPreset load_measured_preset(const BenchFlags& flags, const Globals& globals,
                                          const Machine& machine) {
  PresetFlags preset = flags.preset;
  if (flags.videos.empty()) preset.examples_file.clear();
  return load_preset(preset, globals.locations, machine);
}

int run_bench(BenchFlags flags, const Globals& globals) {
  const Machine machine = detect_machine();
  config::LoadedPreset loaded = load_measured_preset(flags, globals, machine);
  if (flags.shape.empty() && flags.videos.empty() && names_a_shape(loaded.preset.model)) {
    flags.shape = loaded.preset.model.path;
  }
  const bool has_decoder = flags.shape.empty() || find_known(flags.shape).text.has_value();
  check_flags(flags, has_decoder);
  require_named_weights(flags, loaded.preset);
  if (!loaded.preset.engine.kv_cache_dir.empty()) {
    log_warning("bench", "what earlier runs kept is not used: --kv-cache-dir has no effect");
  }
  if (!loaded.note.empty()) log_info("config", loaded.note);
  const BenchDevice device =
      choose_bench_device(flags, has_decoder, loaded.preset, machine, globals.cpu_tier);
  const Context& context = device.context;
  if (flags.shape.empty() && !flags.kernels) {
    settle_weights("bench", context, machine, loaded, flags.preset.prompts);
  }
  // A prediction is for another device.
  if (flags.predict.empty() && loaded.preset.quantization.weights != config::WeightFormat::kAuto) {
    config::require_products(context, loaded.preset, loaded.locations);
  }
  warn_of_idle(flags, loaded, context.device, has_decoder);
  switch (measured_by(flags, has_decoder)) {
    case Measured::kVideos: return run_videos(device, flags, loaded, machine);
    case Measured::kLoading: return run_loading(device, flags, loaded);
    case Measured::kPrediction: return print_prediction(flags, loaded.preset);
    case Measured::kKernels:
    case Measured::kTowerKernels: return run_kernels(device, flags, loaded);
    case Measured::kTower: return run_tower(device, flags, loaded);
    case Measured::kPlantedDrafts: return run_planted_drafts(device, flags, loaded);
    case Measured::kFixed:
    case Measured::kMixed:
    case Measured::kPrefix:
    case Measured::kStatic: break;
  }
  return run_synthetic(device, flags, loaded);
}

}  // namespace

void add_bench_command(CLI::App& root, const Globals& globals, int& exit_code) {
  CLI::App* command = root.add_subcommand(
      "bench",
      "Measure speed and memory, beside what the machine could do\n"
      "Time to first token, time per token, throughput, percentiles, memory and occupancy, each "
      "rate beside this machine's bandwidth and FLOP/s measured in the same minutes: on real "
      "videos, on synthetic lengths, on random weights of known shapes, over batch sizes.");
  auto flags = std::make_shared<BenchFlags>();
  add_bench_flags(*command, *flags);
  add_preset_flags(*command, flags->preset);
  command->footer(
      "caption-cli bench videos/ --references references.jsonl\n"
      "caption-cli bench --shape qwen3-0.6b --sweep 1,2,4,8 --svg chart.svg\n"
      "caption-cli bench videos/ --references references.jsonl --price weights");
  command->callback([command, flags, &globals, &exit_code] {
    flags->workload_options = given_workload_options(*command);
    exit_code = run_bench(*flags, globals);
  });
}

}  // namespace caption::cli
