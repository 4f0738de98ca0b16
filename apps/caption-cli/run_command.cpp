#include "run_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "backend/machine.h"
#include "base/error.h"
#include "base/log.h"
#include "config/resolve.h"
#include "exit_codes.h"
#include "interrupts.h"
#include "pipeline/find_videos.h"
#include "pipeline/pipeline.h"
#include "pipeline/progress.h"
#include "pipeline_options.h"
#include "preset_flags.h"
#include "records/file_name.h"
#include "records/record_file.h"
#include "records/stream_sink.h"

namespace caption::cli {
namespace {

struct RunFlags {
  PresetFlags preset;
  std::vector<std::string> paths;
  bool null_separated = false;
  std::string output;
  std::string format;
  std::string prompts_file;
  std::vector<std::string> retry;
  bool retry_failed = false;
  bool stream = false;
  bool overwrite = false;
  bool quiet = false;
};

std::vector<pipeline::Input> find_inputs(const RunFlags& flags) {
  const pipeline::FoundVideos found = pipeline::find_videos(
      flags.paths, {.descriptor = STDIN_FILENO, .separator = flags.null_separated ? '\0' : '\n'});
  for (const std::string& skipped : pipeline::describe_skipped(found)) log_warning("run", skipped);
  if (found.inputs.empty()) {
    throw Error(ErrorCode::kUsage,
                "run: no file in what was given; name videos or folders of them");
  }
  return pipeline::to_inputs(found.inputs);
}

// Text for a reader, JSON lines for a program.
records::Format choose_format(const RunFlags& flags) {
  if (!flags.format.empty()) return records::parse_format(flags.format);
  const bool is_read_by_human = flags.output.empty() && ::isatty(STDOUT_FILENO) == 1;
  return is_read_by_human ? records::Format::kTxt : records::Format::kJsonl;
}

records::Retry retry_of(const RunFlags& flags) {
  records::Retry retry;
  if (flags.retry_failed) retry.statuses.push_back(records::Status::kFailed);
  for (const std::string& name : flags.retry) {
    const std::optional<records::Status> status = records::find_status(name);
    if (!status.has_value() || status == records::Status::kOk) {
      throw Error(ErrorCode::kUsage,
                  "--retry: \"" + name + "\" is none of failed, truncated, looped");
    }
    retry.statuses.push_back(*status);
  }
  // How a caption is generated may be the reason for its status.
  if (!flags.retry.empty()) retry.changeable = {"generation."};
  return retry;
}

// What is wrong with them is said before a model is loaded.
void check_output(const RunFlags& flags) {
  if (flags.output.empty() && (flags.retry_failed || flags.overwrite || !flags.retry.empty())) {
    throw Error(ErrorCode::kUsage, "--retry, --retry-failed and --overwrite need -o FILE");
  }
  choose_format(flags);
  retry_of(flags);
}

std::vector<pipeline::Prompt> choose_prompts(const RunFlags& flags, const config::Preset& preset) {
  if (flags.prompts_file.empty()) {
    return pipeline::name_prompts(flags.preset.prompts.empty()
                                      ? std::vector<std::string>{preset.generation.prompt}
                                      : flags.preset.prompts);
  }
  if (!flags.preset.prompts.empty()) {
    throw Error(ErrorCode::kUsage, "--prompt and --prompts exclude each other");
  }
  return pipeline::read_prompts(flags.prompts_file);
}

records::Manifest make_manifest(const config::Preset& preset, const model::CaptionModel& model,
                                const Hash128& model_hash,
                                const std::vector<pipeline::Prompt>& prompts) {
  records::Manifest manifest;
  manifest.settings = {{"version", CAPTION_VERSION},
                       {"preset", preset.name},
                       {"model_family", std::string(model.family())},
                       {"model_hash", model_hash.hex()}};
  for (const pipeline::Prompt& prompt : prompts) {
    manifest.settings.emplace_back(prompt.name.empty() ? "prompt" : "prompt." + prompt.name,
                                   prompt.text);
  }
  for (auto& setting : config::caption_settings(preset)) {
    manifest.settings.push_back(std::move(setting));
  }
  return manifest;
}

// Leaves out the clips, and of clips the prompts, that the file already holds.
void skip_finished(const records::RecordFile& file, const RunFlags& flags,
                   const std::vector<pipeline::Prompt>& prompts,
                   std::vector<pipeline::Input>& inputs) {
  const records::ResumeIndex& finished = file.finished();
  if (finished.num_finished() == 0) return;
  const std::size_t num_before = inputs.size() * prompts.size();
  std::size_t num_left = 0;
  for (pipeline::Input& input : inputs) {
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      if (finished.contains(records::escape_file_name(input.path), prompts[i].name)) continue;
      input.prompts.push_back(i);
    }
    num_left += input.prompts.size();
  }
  std::erase_if(inputs, [](const pipeline::Input& input) { return input.prompts.empty(); });
  std::string message = flags.output + ": resumed; " + std::to_string(num_before - num_left) +
                        " of " + std::to_string(num_before) +
                        (prompts.size() == 1 ? " clips are in it" : " captions are in it");
  if (finished.num_failed() > 0) {
    message += ", " + std::to_string(finished.num_failed()) +
               " of them failed (--retry-failed tries them again)";
  }
  log_info("run", message);
}

pipeline::ProgressStyle progress_style(const RunFlags& flags) {
  // A live line and a caption that grows would write over each other.
  if (flags.quiet || flags.stream) return pipeline::ProgressStyle::kSilent;
  return pipeline::choose_progress_style(stderr_is_terminal(), std::getenv("TERM"));
}

int report(const pipeline::Outcome& outcome, const pipeline::ThreadPlan& threads,
           const RunFlags& flags, std::int64_t num_failed_before) {
  switch (outcome.ending) {
    case pipeline::Ending::kReaderGone: return kExitInterrupted;
    case pipeline::Ending::kCancelled:
      log_warning("run", "interrupted; " + std::to_string(outcome.progress.clips_done) + " of " +
                             std::to_string(outcome.progress.clips_total) + " records are written" +
                             (flags.output.empty() ? "; with -o FILE a run can be continued"
                                                   : "; the same command continues"));
      return kExitInterrupted;
    case pipeline::Ending::kFinished: break;
  }
  log_info("run", pipeline::describe_speed(outcome));
  if (outcome.progress.clips_done > 0) {
    log_info("run", pipeline::describe_busy(outcome, threads));
    const std::string caches = pipeline::describe_caches(outcome);
    if (!caches.empty()) log_info("run", caches);
  }
  const std::int64_t num_failed = outcome.progress.clips_failed + num_failed_before;
  return num_failed > 0 ? kExitClipsFailed : kExitOk;
}

// The caption alone, as it comes.
class SpokenCaption {
 public:
  explicit SpokenCaption(std::atomic<bool>& stop) : stop_(stop) {}

  void say(std::string_view text) {
    has_begun_ = true;
    errno = 0;
    if (std::cout << text << std::flush) return;
    if (error_ == 0) error_ = errno;
    stop_.store(true);
  }

  // Ends the line, if there is one. False when its reader has left; throws Error(kIo) when it could
  // not be written for another reason.
  bool end() {
    if (has_begun_) say("\n");
    std::cout.clear();
    if (error_ == 0 || error_ == EPIPE) return error_ == 0;
    throw Error(ErrorCode::kIo,
                std::string("standard output: cannot write: ") + std::strerror(error_));
  }

 private:
  std::atomic<bool>& stop_;
  bool has_begun_ = false;
  int error_ = 0;  // errno of the first text that could not be written
};

// Keeps no record: the caption has been said.
class NoRecords final : public records::RecordSink {
 public:
  records::AppendResult append(const records::Record& /*record*/) override {
    return records::AppendResult::kWritten;
  }
};

void check_stream(const RunFlags& flags, const config::Preset& preset, std::size_t num_inputs,
                  std::size_t num_prompts) {
  if (!flags.stream) return;
  if (num_inputs != 1 || num_prompts != 1) {
    throw Error(ErrorCode::kUsage, "--stream is for one video and one prompt; found " +
                                       std::to_string(num_inputs) + " videos and " +
                                       std::to_string(num_prompts) + " prompts");
  }
  if (preset.generation.num_beams > 1) {
    throw Error(ErrorCode::kUsage, "--stream and beams exclude each other: beams end together");
  }
  if (flags.output.empty() && !flags.format.empty()) {
    throw Error(ErrorCode::kUsage, "--stream writes the caption alone; --format goes with -o FILE");
  }
}

struct Output {
  std::unique_ptr<records::RecordSink> sink;
  std::int64_t num_failed_before = 0;
};

// Leaves out of `inputs` what is done already.
Output open_output(const RunFlags& flags, const records::Manifest& manifest,
                   const std::vector<pipeline::Prompt>& prompts,
                   std::vector<pipeline::Input>& inputs) {
  const records::Format format = choose_format(flags);
  if (flags.output.empty()) {
    if (flags.stream) return {.sink = std::make_unique<NoRecords>()};
    return {.sink = std::make_unique<records::StreamSink>(STDOUT_FILENO, format)};
  }
  const auto existing =
      flags.overwrite ? records::Existing::kOverwrite : records::Existing::kResume;
  auto file = std::make_unique<records::RecordFile>(flags.output, format, manifest, existing,
                                                    retry_of(flags));
  skip_finished(*file, flags, prompts, inputs);
  const std::int64_t num_failed = file->finished().num_failed();
  return {.sink = std::move(file), .num_failed_before = num_failed};
}

int run(const RunFlags& flags) {
  check_output(flags);
  if (flags.quiet) set_log_level(LogLevel::kWarning);
  std::atomic<bool>& stop = catch_interrupts();
  const Machine machine = detect_machine();
  const config::LoadedPreset loaded = load_preset(flags.preset, machine);
  if (!loaded.note.empty()) log_info("config", loaded.note);
  config::require_available(loaded.preset, has_cuda_kernels());
  config::require_consistent(loaded.preset);
  std::vector<pipeline::Prompt> prompts = choose_prompts(flags, loaded.preset);
  std::vector<pipeline::Input> inputs = find_inputs(flags);
  check_stream(flags, loaded.preset, inputs.size(), prompts.size());

  const std::unique_ptr<model::CaptionModel> model =
      config::open_model(loaded.preset, loaded.path.parent_path());
  const Hash128 model_hash = model->content_hash();
  pipeline::Options options = pipeline_options(loaded.preset, machine, *model, model_hash);
  options.stop = &stop;
  log_info("run", "threads " + pipeline::describe_threads(
                                   config::num_threads(loaded.preset, machine), options.threads));
  for (pipeline::Prompt& prompt : prompts) {
    if (prompt.text.empty()) prompt.text = model->default_prompt();
  }
  options.prompts = prompts;
  SpokenCaption spoken(stop);
  if (flags.stream) options.on_text = [&](std::string_view text) { spoken.say(text); };

  Output output = open_output(flags, make_manifest(loaded.preset, *model, model_hash, prompts),
                              prompts, inputs);
  pipeline::Outcome outcome;
  {
    pipeline::ProgressLine line(progress_style(flags));
    options.on_progress = [&line](const pipeline::Progress& progress) { line.update(progress); };
    outcome = pipeline::run(*model, inputs, options, *output.sink);
  }
  if (!spoken.end()) return kExitInterrupted;
  return report(outcome, options.threads, flags, output.num_failed_before);
}

}  // namespace

void add_run_command(CLI::App& root, int& exit_code) {
  CLI::App* command = root.add_subcommand("run", "Caption videos: one record per clip");
  auto flags = std::make_shared<RunFlags>();
  command
      ->add_option("videos", flags->paths,
                   "videos, folders (walked whole), or - for paths on standard input")
      ->type_name("PATH")
      ->required();
  command->add_flag("-0", flags->null_separated, "paths on standard input end in NUL bytes");
  command
      ->add_option("-o,--output", flags->output, "append records here (default: standard output)")
      ->type_name("FILE");
  command
      ->add_option("--format", flags->format,
                   "jsonl, csv or txt (default: jsonl; txt on a terminal)")
      ->type_name("");
  command->add_flag("--retry-failed", flags->retry_failed,
                    "drop the failed records of -o and try their clips again");
  command
      ->add_option("--retry", flags->retry,
                   "the same for these statuses: failed, truncated, looped; generation options may "
                   "differ from the first run's")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("LIST");
  command->add_flag("--overwrite", flags->overwrite, "start -o anew");
  command
      ->add_option("--prompts", flags->prompts_file,
                   "a UTF-8 file of prompts, one per line: name, tab, prompt, or the prompt alone "
                   "(p1, p2, ...); # begins a comment; every clip answers all of them, each in "
                   "a record with \"prompt\": name")
      ->type_name("FILE");
  command->add_flag("--stream", flags->stream,
                    "one video: its caption on standard output as it comes");
  command->add_flag("-q,--quiet", flags->quiet, "only warnings and errors on standard error");
  add_preset_flags(*command, flags->preset);
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace caption::cli
