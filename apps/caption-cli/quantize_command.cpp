#include "quantize_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/machine.h"
#include "base/clock.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/join.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/open_file.h"
#include "base/paths.h"
#include "base/units.h"
#include "config/hub_cache.h"
#include "config/resources.h"
#include "environment.h"
#include "exit_codes.h"
#include "globals.h"
#include "interrupts.h"
#include "option_types.h"
#include "pipeline/progress.h"
#include "pipeline/time_left.h"
#include "plan/known_models.h"
#include "preset_flags.h"
#include "quantise/check_source.h"
#include "quantise/make_gguf.h"
#include "quantise/quantise_checkpoint.h"
#include "quantize_calibration.h"
#include "quantize_gguf.h"
#include "records/file_name.h"

namespace caption::cli {
namespace {

struct QuantizeFlags {
  std::string model;
  std::string output;
  std::string format;
  bool double_quant = false;
  std::int64_t group_size = 128;
  bool act_order = false;
  std::optional<double> damping;
  CalibrationFlags calibration;
  std::optional<std::int64_t> max_shard_bytes;
  bool quiet = false;
};

// Reports progress as `run` does: a live line on a terminal, occasional lines elsewhere.
class QuantizeProgressLine {
 public:
  explicit QuantizeProgressLine(pipeline::ProgressStyle style) : style_(style) {}
  ~QuantizeProgressLine() {
    if (style_ == pipeline::ProgressStyle::kLive) set_status_line("");
  }
  QuantizeProgressLine(const QuantizeProgressLine&) = delete;
  QuantizeProgressLine& operator=(const QuantizeProgressLine&) = delete;

  void update(const quantise::QuantiseProgress& progress) {
    if (is_due(progress.elapsed_us)) show(describe(progress));
  }
  // Shows how many of the videos for calibration are read.
  void update_videos(std::int64_t done, std::int64_t total) {
    const std::int64_t elapsed_us = watch_.elapsed_us();
    if (!is_due(elapsed_us)) return;
    const double left_us = static_cast<double>(elapsed_us) * static_cast<double>(total - done) /
                           static_cast<double>(std::max<std::int64_t>(1, done));
    show("calibration: " + std::to_string(done) + "/" + counted(total, "video") + " read, about " +
         pipeline::duration_text(left_us) + " left");
  }

 private:
  // Returns whether a line is to be shown after so much time; if so, the next interval begins.
  bool is_due(std::int64_t elapsed_us) {
    constexpr std::int64_t kLiveIntervalUs = 200'000;
    constexpr std::int64_t kSparseIntervalUs = 10'000'000;
    const bool is_live = style_ == pipeline::ProgressStyle::kLive;
    if (style_ == pipeline::ProgressStyle::kSilent ||
        elapsed_us - last_us_ < (is_live ? kLiveIntervalUs : kSparseIntervalUs)) {
      return false;
    }
    last_us_ = elapsed_us;
    return true;
  }
  void show(const std::string& text) const {
    if (style_ == pipeline::ProgressStyle::kLive) {
      set_status_line(text);
    } else {
      log_info("quantize", text);
    }
  }
  static constexpr std::int64_t kFirstEstimateUs = 2'000'000;
  static std::string left_text(double left_us) {
    return ", about " + pipeline::duration_text(left_us) + " left";
  }
  // The work that is left, at the rate of the work that is done, and for layers to come what layers
  // up to this one took besides.
  static std::string describe_layers(const quantise::QuantiseProgress& progress) {
    const std::int64_t layer = progress.layers_done + 1;
    const std::int64_t total = progress.layers_total;
    const std::string text = "layer " + std::to_string(layer) + "/" + std::to_string(total) + ", " +
                             std::to_string(static_cast<int>(100 * progress.layer_part)) +
                             " % of it";
    if (progress.work_us < kFirstEstimateUs) return text;
    const auto done = static_cast<double>(progress.work_done);
    const auto left = static_cast<double>(progress.work_total - progress.work_done);
    const auto other_us = static_cast<double>(progress.elapsed_us - progress.work_us);
    return text +
           left_text(static_cast<double>(progress.work_us) * left / done +
                     other_us * static_cast<double>(total - layer) / static_cast<double>(layer));
  }
  static std::string describe(const quantise::QuantiseProgress& progress) {
    if (progress.layers_done < progress.layers_total) return describe_layers(progress);
    const std::int64_t elapsed_us = progress.elapsed_us - progress.layers_us;
    std::string text =
        std::to_string(progress.tensors_done) + "/" + counted(progress.tensors_total, "tensor") +
        ", " + format_bytes(progress.bytes_done) + " of " + format_bytes(progress.bytes_total);
    if (progress.bytes_done > 0 && elapsed_us >= kFirstEstimateUs) {
      const auto done = static_cast<double>(progress.bytes_done);
      const auto left = static_cast<double>(progress.bytes_total - progress.bytes_done);
      const auto spent_us = static_cast<double>(elapsed_us);
      text += left_text(spent_us * left / done) + ", " +
              format_bytes(static_cast<std::int64_t>(done * 1e6 / spent_us)) + "/s";
    }
    return text;
  }

  pipeline::ProgressStyle style_;
  Stopwatch watch_;
  std::int64_t last_us_ = 0;
};

// Throws Error(kBadModel) for a name that is neither a folder that the presets know nor that of a
// model on the hub.
void require_possible_name(const std::string& name, const config::Locations& locations) {
  const bool is_possible = config::find_model_place(name, locations).has_value() ||
                           config::is_hub_name(name) || plan::find_hub_name(name).has_value() ||
                           name == "demo";
  if (is_possible) return;
  throw Error(ErrorCode::kBadModel,
              "quantize: " + records::escape_file_name(name) +
                  (name.ends_with(".gguf") ? ": no such file, and GGUF files are not quantised "
                                             "again"
                                           : ": no such folder") +
                  did_you_mean(name, plan::known_model_names()) +
                  "; give the folder of a model as transformers saves it, or its name in the "
                  "Hugging Face cache (organisation/model)");
}

std::filesystem::path find_source(const QuantizeFlags& flags, const config::Locations& locations) {
  const std::string& name = flags.model;
  if (name.ends_with(".yaml") || name.ends_with(".yml")) {
    throw Error(ErrorCode::kUsage, "quantize: " + records::escape_file_name(name) +
                                       ": is a preset; quantize takes a model's folder (of a "
                                       "composed model that of its language model: the preset then "
                                       "names the result as llm)");
  }
  if (!is_present(name)) {
    require_possible_name(name, locations);
  } else if (!is_folder(name)) {
    quantise::require_plain_folder(name);  // throws
  }
  return config::find_named_model(name, locations);
}

// Tells of files without weights that are not as the model's folder has them.
void report_other_files(const QuantizeFlags& flags, const quantise::QuantiseOutcome& outcome) {
  const std::string folder = records::escape_file_name(flags.output) + ": ";
  const std::vector<std::string>& edited = outcome.edited_files;
  if (!edited.empty()) {
    log_warning("quantize", folder + join(edited) + ": not as quantize makes " +
                                std::string(plural(std::ssize(edited), "it", "them")) +
                                " of the model's folder, and left as edited; what is removed, "
                                "the same command writes again");
  }
  const std::vector<std::string>& repaired = outcome.repaired_files;
  if (!repaired.empty()) {
    log_warning("quantize", folder + join(repaired) + ": not valid JSON, and written again");
  }
}

void report(const QuantizeFlags& flags, const quantise::QuantiseOutcome& outcome) {
  for (const quantise::KeptMatrix& kept : outcome.kept) {
    log_warning("quantize", kept.tensor + " stays as it is: " + kept.reason);
  }
  if (outcome.shards_found > 0) {
    log_info("quantize", std::to_string(outcome.shards_found) + " of " +
                             counted(outcome.num_shards, "file") + " of weights " +
                             std::string(plural(outcome.shards_found, "is", "are")) +
                             " of an earlier run");
  }
  if (!outcome.is_complete) {
    log_warning("quantize", "interrupted; the same command continues");
    return;
  }
  report_other_files(flags, outcome);
  log_info("quantize", records::escape_file_name(flags.output) + ": " +
                           counted(outcome.num_matrices, "matrix", "matrices") + " in " +
                           flags.format + ", " + format_bytes(outcome.output_bytes) +
                           " of weights (" + format_bytes(outcome.source_bytes) + " before) in " +
                           counted(outcome.num_shards, "file"));
}

pipeline::ProgressStyle progress_style(const QuantizeFlags& flags) {
  return flags.quiet
             ? pipeline::ProgressStyle::kSilent
             : pipeline::choose_progress_style(stderr_is_terminal(), environment_variable("TERM"));
}

// The first option that GGUF files have not; nullptr: there is none.
const char* option_without_gguf(const QuantizeFlags& flags) {
  if (flags.double_quant) return "--double-quant is for nf4 and fp4";
  if (flags.max_shard_bytes) return "--max-shard-size is for files of safetensors";
  if (flags.group_size != 128) return "--group-size is for w4a16, awq and gptq";
  if (flags.calibration.is_wanted()) return "--calibrate is for awq and gptq";
  if (flags.act_order) return "--act-order is for gptq";
  return flags.damping ? "--damping is for gptq" : nullptr;
}

int make_gguf_files(const quantise::GgufFormat& format, const QuantizeFlags& flags,
                    quantise::GgufOptions options) {
  std::optional<weights::GgufSummary> made;
  {
    QuantizeProgressLine line(progress_style(flags));
    options.on_progress = [&line](const quantise::QuantiseProgress& progress) {
      line.update(progress);
    };
    made = quantise::make_gguf(options);
  }
  report_gguf(format, flags.output, made);
  return made ? kExitOk : kExitInterrupted;
}

// Throws Error(kUsage) for options that mean nothing without another one.
void require_consistent(const QuantizeFlags& flags) {
  if (flags.output.empty()) throw Error(ErrorCode::kUsage, "quantize: -o is empty");
  const char* const option = option_without_gguf(flags);
  if (quantise::find_gguf_format(flags.format) != nullptr && option != nullptr) {
    throw Error(ErrorCode::kUsage,
                std::string("quantize: ") + option + "; " + flags.format + " has no such option");
  }
  if (flags.quiet && log_level() < LogLevel::kInfo) {
    throw Error(ErrorCode::kUsage, "quantize: -q and -v exclude each other");
  }
  if (flags.calibration.is_wanted()) return;
  const bool is_gptq = flags.format == "gptq";
  const char* const given = is_gptq && flags.damping     ? "--damping"
                            : is_gptq && flags.act_order ? "--act-order"
                                                         : flags.calibration.first_given();
  if (given == nullptr) return;
  throw Error(ErrorCode::kUsage, std::string("quantize: ") + given +
                                     " is for calibration; give videos with --calibrate");
}

// `preset` is that of the calibration; not set: there is none.
int make_checkpoint(const QuantizeFlags& flags, std::optional<config::LoadedPreset> preset,
                    quantise::QuantiseOptions options, const Globals& globals,
                    const std::atomic<bool>& stop) {
  quantise::Calibration calibration;
  if (preset.has_value()) {
    options.calibration = &calibration;
    // Decoding takes long, so that what would be refused afterwards is refused before.
    quantise::check_options(options);
    require_replaceable_calibration(flags.calibration, options.model, options.output);
    try {
      quantise::check_output(options);
      QuantizeProgressLine line(progress_style(flags));
      calibration = read_calibration(
          flags.calibration, std::move(*preset), options.model, globals, stop,
          [&line](std::int64_t done, std::int64_t total) { line.update_videos(done, total); });
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCancelled) throw;
      log_warning("quantize", "interrupted; the same command starts again");
      return kExitInterrupted;
    }
  }
  quantise::QuantiseOutcome outcome;
  {
    QuantizeProgressLine line(progress_style(flags));
    options.on_progress = [&line](const quantise::QuantiseProgress& progress) {
      line.update(progress);
    };
    outcome = quantise::quantise_checkpoint(options);
  }
  report(flags, outcome);
  return outcome.is_complete ? kExitOk : kExitInterrupted;
}

int quantize(const QuantizeFlags& flags, const Globals& globals) {
  require_consistent(flags);
  if (flags.quiet) set_log_level(LogLevel::kWarning);
  std::atomic<bool>& stop = catch_interrupts();
  std::optional<config::LoadedPreset> preset;
  if (flags.calibration.is_wanted()) preset = load_calibration_preset(flags.calibration, globals);
  const std::filesystem::path model = find_source(
      flags, preset.has_value()
                 ? preset->locations
                 : model_locations(PresetFlags().preset, globals.locations, detect_machine()));
  // Quantising takes long, so that what could not be run afterwards is refused before. Calibration
  // opens the model itself.
  if (!preset.has_value()) quantise::check_source(globals.context(), model);
  if (const quantise::GgufFormat* const gguf = quantise::find_gguf_format(flags.format)) {
    return make_gguf_files(*gguf, flags,
                           {.model = model,
                            .output = flags.output,
                            .format = flags.format,
                            .type = gguf->weights,
                            .digests = DigestCache(globals.locations.digests),
                            .stop = &stop});
  }
  quantise::QuantiseOptions options{.model = model,
                                    .output = flags.output,
                                    .format = flags.format,
                                    .format_options = {.double_quant = flags.double_quant,
                                                       .group_columns = flags.group_size,
                                                       .act_order = flags.act_order}};
  if (flags.max_shard_bytes.has_value()) options.max_shard_bytes = *flags.max_shard_bytes;
  options.damping = flags.damping;
  options.num_threads = std::max(1, static_cast<int>(detect_machine().num_cpus));
  options.cpu_tier = globals.context().cpu_tier;
  options.digests = DigestCache(globals.locations.digests);
  options.stop = &stop;
  return make_checkpoint(flags, std::move(preset), std::move(options), globals, stop);
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const quantise::FormatEntry& format : quantise::formats()) names.emplace_back(format.name);
  for (const quantise::GgufFormat& format : quantise::gguf_formats())
    names.emplace_back(format.name);
  return names;
}

std::string format_help() {
  std::string text = "what is made\nawq and gptq round to nearest without --calibrate. ";
  const char* separator = "";
  for (const quantise::FormatEntry& format : quantise::formats()) {
    text += separator + std::string(format.name) + ": " + std::string(format.summary);
    separator = ". ";
  }
  for (const quantise::GgufFormat& format : quantise::gguf_formats()) {
    text += separator + std::string(format.name) + ": " + std::string(format.summary);
  }
  return text + ".";
}

// How weights are rounded, and what calibrates them.
void add_rounding_flags(CLI::App& command, QuantizeFlags& flags) {
  limit_to(command.add_option("--group-size", flags.group_size,
                              "for w4a16, awq and gptq: columns that share a scale"),
           {"32", "64", "128"})
      ->default_str("128")
      ->group("Format");
  add_calibration_flags(command, flags.calibration);
  command
      .add_flag("--act-order", flags.act_order,
                "for gptq with --calibrate: columns with large inputs first\n"
                "Groups are formed in that order and the files have g_idx (desc_act). Without it "
                "the groups keep their columns, and are rounded in that order.")
      ->group("Calibration");
  command
      .add_option("--damping", flags.damping,
                  "for gptq with --calibrate: share of the mean added to the diagonal")
      ->check(in_range(0.0001, 0.9))
      ->type_name(kNumberType)
      ->default_str("0.05")
      ->group("Calibration");
}

}  // namespace

void add_quantize_command(CLI::App& root, const Globals& globals, int& exit_code) {
  CLI::App* command = root.add_subcommand(
      "quantize",
      "Make a quantised checkpoint of a model's folder\n"
      "Rounds the matrices of the decoder's layers to the nearest codes of a format that run and "
      "the libraries of the format read; embedding, norms, LM head, vision tower and projector "
      "keep their bytes. With --calibrate the codes of awq and gptq are chosen with the inputs "
      "that matrices see in prompts about videos; awq then changes norms, too. An interrupted "
      "command is continued by the same one; another model or format in the same -o is refused. "
      "The "
      "formats "
      "gguf-* make files for llama.cpp as well, with tokenizer, tower and projector.");
  auto flags = std::make_shared<QuantizeFlags>();
  command->add_option("model", flags->model, "a model's folder, or its name in the hub cache")
      ->type_name(kModelType)
      ->group("Input")
      ->required();
  command->add_option("-o,--output", flags->output, "folder of the new checkpoint")
      ->type_name(kFolderType)
      ->group("Output")
      ->required();
  limit_to(command->add_option("--format", flags->format, format_help()), format_names())
      ->group("Format")
      ->required();
  command
      ->add_flag("--double-quant", flags->double_quant,
                 "for nf4 and fp4: scales of 8 bits\nSaves 0.37 bits per weight.")
      ->group("Format");
  add_rounding_flags(*command, *flags);
  constexpr std::int64_t kMinShardBytes = 1 << 10;
  add_size(*command, "--max-shard-size", flags->max_shard_bytes, kMinShardBytes,
           "bytes of one file of weights\nA single tensor may be larger.")
      ->default_str("5GB")
      ->group("Output");
  command->add_flag("-q,--quiet", flags->quiet, "only warnings and errors on stderr")
      ->group("Output");
  command->footer(
      "caption-cli quantize Qwen/Qwen3-VL-8B-Instruct -o nf4 --format nf4\n"
      "caption-cli quantize llava/ -o llava-awq --format awq --max-shard-size 2GB\n"
      "caption-cli quantize llava/ -o llava-gptq --format gptq --calibrate videos/");
  command->callback([flags, &globals, &exit_code] { exit_code = quantize(*flags, globals); });
}

}  // namespace caption::cli
