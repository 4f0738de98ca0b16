#include "quantize_calibration.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>

#include "backend/machine.h"
#include "backend/stream.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/open_file.h"
#include "base/paths.h"
#include "base/sha256.h"
#include "config/load_preset.h"
#include "config/resolve.h"
#include "eval/corpus.h"
#include "globals.h"
#include "input_flags.h"
#include "interrupts.h"
#include "option_types.h"
#include "pipeline/calibration_prompts.h"
#include "pipeline/find_videos.h"
#include "preset_flags.h"
#include "records/file_name.h"

namespace caption::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_to_save(const std::string& file, const std::string& what,
                                 ErrorCode code = ErrorCode::kUsage) {
  throw Error(code, "quantize: --save-calibration: " + records::escape_file_name(file) + ": " +
                        what + "; name another file");
}

// Whether the file is, or would be made, in the folder or one below it. Links to folders are
// followed.
bool is_within(const fs::path& file, const fs::path& folder) {
  std::error_code error;
  const fs::path given = fs::absolute(file, error);
  fs::path whole = fs::absolute(folder, error);
  // The working folder has been removed.
  if (given.is_relative() || whole.is_relative()) return false;
  const fs::path place = fs::weakly_canonical(given.parent_path(), error) / file.filename();
  whole = fs::weakly_canonical(whole, error);
  if (!whole.has_filename()) whole = whole.parent_path();  // it ended with a slash
  return std::mismatch(whole.begin(), whole.end(), place.begin(), place.end()).first == whole.end();
}

// The videos and folders as `run` finds them; only files that are videos count in folders.
pipeline::InputList find_clips(const CalibrationFlags& flags, const video::ReadOptions& read) {
  const pipeline::FoundVideos found = pipeline::find_videos(flags.videos, {}, {}, read.cancelled);
  for (const std::string& skipped : pipeline::describe_skipped(found)) {
    log_warning("quantize", skipped);
  }
  pipeline::InputList clips;
  for (std::size_t i = 0; i < found.inputs.size(); ++i) {
    if (is_clip(found.inputs, i, read)) clips.add(found.inputs.path(i), found.inputs.origin(i));
  }
  if (clips.empty()) {
    throw Error(
        ErrorCode::kUsage,
        "quantize: --calibrate: no video in what was given; name videos or folders of them");
  }
  return clips;
}

std::vector<pipeline::Prompt> choose_prompts(const CalibrationFlags& flags,
                                             const config::Preset& preset) {
  if (flags.prompts_file.empty()) {
    return pipeline::name_prompts(
        flags.prompts.empty() ? std::vector<std::string>{preset.generation.prompt} : flags.prompts);
  }
  if (!flags.prompts.empty()) {
    throw Error(ErrorCode::kUsage, "--prompt and --prompts exclude each other");
  }
  return pipeline::read_prompts(flags.prompts_file);
}

std::string digest_of(const eval::References& references) {
  Sha256Hasher hasher;
  const auto add = [&](const std::vector<std::string>& captions) {
    hasher.update_value(std::ssize(captions));
    for (const std::string& caption : captions) hasher.update_string(caption);
  };
  for (const eval::ReferenceEntry& entry : references.entries) {
    hasher.update_string(entry.video);
    add(entry.captions);
    hasher.update_value(std::ssize(entry.of_prompts));
    for (const auto& [prompt, captions] : entry.of_prompts) {
      hasher.update_string(prompt);
      add(captions);
    }
  }
  return hasher.digest().hex();
}

[[noreturn]] void refuse_without_match(const CalibrationFlags& flags, const eval::Corpus& corpus) {
  throw Error(ErrorCode::kBadReference,
              "quantize: --references " + records::escape_file_name(flags.references) +
                  ": no reference is of a video of --calibrate; looked for by " +
                  std::string(eval::match_by_name(corpus.match)) + ": " +
                  eval::list_some(corpus.extra, 1) +
                  "; in the references: " + eval::list_some(corpus.missing, 1) +
                  "; name the videos in the references as --calibrate finds them, or leave out "
                  "--references");
}

// Sets the first reference of every clip and prompt as the answer, by the clip's path.
void set_answers(const CalibrationFlags& flags, const pipeline::InputList& clips,
                 pipeline::CalibrationOptions& options) {
  if (flags.references.empty()) return;
  const eval::References references = eval::read_references(flags.references);
  options.references_digest = digest_of(references);
  // A clip stands for its caption, so that its path comes back with its references.
  std::vector<eval::CaptionEntry> entries;
  for (std::size_t i = 0; i < clips.size(); ++i) {
    const std::string path(clips.path(i));
    entries.push_back({.video = path, .caption = path, .where = path});
  }
  for (const pipeline::Prompt& prompt : options.prompts) {
    const eval::Corpus corpus =
        eval::match_up(eval::choose_references(references, prompt.name), entries);
    if (corpus.missing.size() == corpus.segments.size()) refuse_without_match(flags, corpus);
    for (const eval::Segment& segment : corpus.segments) {
      if (!segment.caption || segment.references.empty()) continue;
      options.answers[{*segment.caption, prompt.name}] = segment.references.front();
    }
  }
}

// Puts the model in the folder in the place of the preset's, with the numbers of its files.
void set_source(const fs::path& model, config::Preset& preset) {
  const std::string whole = absolute_path(model).string();
  (preset.model.is_composed ? preset.model.llm : preset.model.path) = whole;
  preset.quantization.weights = config::WeightFormat::kF32;
  preset.quantization.double_quant = false;
}

// What --calibration-tokens or the number of videos did not allow; empty where they allowed all.
std::string describe_limits(const CalibrationFlags& flags,
                            const pipeline::CalibrationPrompts& read) {
  const std::string least = std::to_string(pipeline::kLeastCalibrationClips);
  if (read.num_clips < pipeline::kLeastCalibrationClips) {
    return "; it should have at least " + least + ", give more with --calibrate";
  }
  if (read.calibration.num_tokens() <= flags.max_tokens) return {};
  return "; more than --calibration-tokens " + std::to_string(flags.max_tokens) +
         ", since at least " + least + " videos are used";
}

}  // namespace

const char* CalibrationFlags::first_given() const {
  if (!references.empty()) return "--references";
  if (!prompts.empty()) return "--prompt";
  if (!prompts_file.empty()) return "--prompts";
  if (preset != "auto") return "--preset";
  if (!saved_as.empty()) return "--save-calibration";
  return max_tokens != CalibrationFlags().max_tokens ? "--calibration-tokens" : nullptr;
}

void add_calibration_flags(CLI::App& command, CalibrationFlags& flags) {
  constexpr const char* kGroup = "Calibration";
  command
      .add_option("--calibrate", flags.videos,
                  "for awq and gptq: videos or folders to choose the codes with\n"
                  "Prompts about them go through the model's own decoding, tower, projector and "
                  "chat template. "
                  "GPTQ rounds column after column and corrects later columns for the errors of "
                  "earlier ones; awq does so after a search for the scales of columns with which "
                  "each part of a layer keeps what it computes. Without it weights are rounded to "
                  "the nearest code.")
      ->take_all()
      ->type_name(kPathType)
      ->group(kGroup);
  command
      .add_option("--references", flags.references,
                  "captions of the videos, which follow the prompts as answers\n"
                  "JSONL or a folder of label files, as for eval. The calibration then sees what "
                  "the decoder sees while it writes.")
      ->type_name(kPathType)
      ->group(kGroup);
  command
      .add_option(
          "--calibration-tokens", flags.max_tokens,
          "tokens of all prompts together\n"
          "Videos are taken evenly from the list, whole, as many as this allows; at least 4 "
          "are used, where there are as many. Memory grows with them: 8 bytes for each token and "
          "number of a hidden state, 12 with awq.")
      ->check(in_range(std::int64_t{1}, std::int64_t{1} << 30))
      ->type_name(kNumberType)
      ->default_str("32768")
      ->group(kGroup);
  command
      .add_option("--preset", flags.preset,
                  "preset whose frames, system prompt and prompt the calibration uses\n"
                  "That of a composed model calibrates its language model.")
      ->type_name(kPresetType)
      ->default_str("auto")
      ->group(kGroup);
  command.add_option("--prompt", flags.prompts, "prompt in place of the preset's; repeatable")
      ->take_all()
      ->allow_extra_args(false)
      ->type_name(kTextType)
      ->group(kGroup);
  command
      .add_option(
          "--save-calibration", flags.saved_as,
          "also write the prompts to FILE, as safetensors\n"
          "For each the token ids, positions, and the vision tokens with their places: what "
          "the decoder is given, for other tools.")
      ->type_name(kFileType)
      ->group(kGroup);
  command.add_option("--prompts", flags.prompts_file, "file of prompts, as for run")
      ->type_name(kFileType)
      ->group(kGroup);
}

void require_replaceable_calibration(const CalibrationFlags& flags, const fs::path& model,
                                     const fs::path& output) {
  const std::string& file = flags.saved_as;
  if (file.empty()) return;
  if (file == "-") refuse_to_save(file, "is standard output, and the prompts need a file");
  std::vector<std::string> inputs = flags.videos;
  inputs.insert(inputs.end(), {flags.references, flags.prompts_file});
  for (const std::string& input : inputs) {
    if (is_same_file(input, file)) {
      refuse_to_save(
          file, "is read as " + records::escape_file_name(input) + " and would be overwritten");
    }
  }
  if (is_within(file, model)) refuse_to_save(file, "is in the model's folder");
  if (is_within(file, output)) refuse_to_save(file, "is in the folder of -o");
  std::error_code ignored;
  const fs::path folder = fs::absolute(file, ignored).parent_path();
  if (!fs::is_directory(folder, ignored)) {
    refuse_to_save(file, "its folder does not exist", ErrorCode::kIo);
  }
  const fs::file_status status = fs::symlink_status(file, ignored);
  if (!fs::exists(status)) return;
  // A link would be replaced, not the file that it leads to.
  if (!fs::is_regular_file(status)) refuse_to_save(file, "is no regular file");
  if (!quantise::is_saved_calibration(file)) {
    refuse_to_save(file, "holds something else and is not overwritten");
  }
}

config::LoadedPreset load_calibration_preset(const CalibrationFlags& flags,
                                             const Globals& globals) {
  const EndsAtInterrupt ends;  // the preset may be a FIFO
  PresetFlags named;
  named.preset = flags.preset;
  config::LoadedPreset loaded = load_preset(named, globals.locations, detect_machine());
  config::require_consistent(loaded.preset);
  if (!loaded.preset.generation.examples.empty()) {
    throw Error(ErrorCode::kUsage,
                "quantize: the preset " + loaded.preset.name +
                    " has examples, which calibration does not show; give another one with "
                    "--preset");
  }
  return loaded;
}

quantise::Calibration read_calibration(const CalibrationFlags& flags, config::LoadedPreset loaded,
                                       const fs::path& model, const Globals& globals,
                                       const std::atomic<bool>& stop, const OnVideo& on_video) {
  const Machine machine = detect_machine();
  set_source(model, loaded.preset);
  const config::Preset& preset = loaded.preset;
  const Context context = globals.context(config::num_threads(preset, machine));
  pipeline::CalibrationOptions options;
  options.read = config::read_options(preset);
  options.read.cancelled = &stop;
  options.read.num_threads = context.num_threads;
  options.prompts = choose_prompts(flags, preset);
  options.system = preset.generation.system;
  options.max_tokens = flags.max_tokens;
  options.on_clip = on_video;
  const pipeline::InputList clips = find_clips(flags, options.read);
  set_answers(flags, clips, options);
  const std::unique_ptr<model::CaptionModel> opened =
      config::open_model(context, preset, loaded.locations, {.cancelled = &stop});
  ThreadPool pool(context.num_threads);
  Stream stream(context, pool);
  pipeline::CalibrationPrompts read =
      pipeline::read_calibration_prompts(stream, *opened, clips, options);
  log_info("quantize", "calibration: " + counted(read.calibration.num_tokens(), "token") + " of " +
                           counted(std::ssize(read.calibration.prompts), "prompt") + ", " +
                           std::to_string(read.num_answers) + " with answers, on " +
                           counted(read.num_clips, "video") + describe_limits(flags, read));
  if (!flags.saved_as.empty()) quantise::save_calibration(read.calibration, flags.saved_as);
  return std::move(read.calibration);
}

}  // namespace caption::cli
