#include "run_output.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/counted.h"
#include "base/durable_file.h"
#include "base/error.h"
#include "base/join.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/open_file.h"
#include "config/choices.h"
#include "config/comparable_settings.h"
#include "config/draft_captions.h"
#include "config/identity.h"
#include "records/file_name.h"
#include "records/format.h"
#include "records/stream_sink.h"
#include "write_checks.h"

namespace caption::cli {

records::Format choose_format(const OutputFlags& flags) {
  if (!flags.format.empty()) return records::parse_format(flags.format);
  if (flags.is_stdout()) {
    const bool is_read_by_human = flags.path.empty() && ::isatty(STDOUT_FILENO) == 1;
    return is_read_by_human ? records::Format::kTxt : records::Format::kJsonl;
  }
  return records::format_of_suffix(flags.path).value_or(records::Format::kJsonl);
}

void say_format(const OutputFlags& flags) {
  const bool is_chosen = !flags.format.empty() || flags.is_stdout() ||
                         records::format_of_suffix(flags.path).has_value();
  const std::string suffix = std::filesystem::path(flags.path).extension().string();
  if (is_chosen || suffix.empty()) return;
  log_info("run", "-o " + records::escape_file_name(flags.path) +
                      ": records are written as jsonl, "
                      "because " +
                      records::escape_file_name(suffix) +
                      " is no format; --format, or a name in .jsonl, .csv or .txt, chooses one");
}

namespace {

constexpr std::array kRetried = {records::Status::kFailed, records::Status::kTruncated,
                                 records::Status::kSuspicious};

bool is_retried(records::Status status) {
  return std::find(kRetried.begin(), kRetried.end(), status) != kRetried.end();
}

}  // namespace

std::vector<std::string> retry_names() {
  std::vector<std::string> names;
  for (const records::Status status : kRetried) names.emplace_back(records::status_name(status));
  return names;
}

namespace {

records::Retry retry_of(const OutputFlags& flags) {
  records::Retry retry;
  if (flags.retry_failed) retry.statuses.push_back(records::Status::kFailed);
  for (const std::string& name : flags.retry) {
    const std::optional<records::Status> status = records::find_status(name);
    if (!status.has_value() || !is_retried(*status)) {
      const std::vector<std::string> names = retry_names();
      throw Error(ErrorCode::kUsage, "--retry: \"" + name + "\" is none of " + join(names) +
                                         did_you_mean(name, names));
    }
    retry.statuses.push_back(*status);
  }
  // A retry may change the generation settings, since they may be the reason for the status.
  if (!retry.statuses.empty()) retry.changeable = {"generation."};
  return retry;
}

records::Existing existing_of(const OutputFlags& flags) {
  return flags.overwrite ? records::Existing::kOverwrite : records::Existing::kResume;
}

// Checks, before anything is written, the output, its manifest and the files that replace it.
void require_writable(const OutputFlags& flags) {
  std::vector<std::string> suffixes = {".manifest.json", ".compact"};
  if (flags.overwrite) suffixes.insert(suffixes.end(), {".new", ".new.manifest.json"});
  require_writable_output(flags.path, suffixes);
}

// Discards records, because the caption was streamed already.
class NoRecords final : public records::RecordSink {
 public:
  records::AppendResult append(const records::Record& /*record*/) override {
    return records::AppendResult::kWritten;
  }
};

// Writes each record on a new line of the terminal, above the live line if there is one.
class AboveStatusLine final : public records::RecordSink {
 public:
  explicit AboveStatusLine(std::unique_ptr<records::RecordSink> sink) : sink_(std::move(sink)) {}

  records::Earlier find(const records::ClipIdentity& clip, const std::string& video,
                        std::string_view prompt) override {
    return sink_->find(clip, video, prompt);
  }
  records::AppendResult append(const records::Record& record) override {
    set_status_line("");  // the next progress report draws it again
    return sink_->append(record);
  }

 private:
  std::unique_ptr<records::RecordSink> sink_;
};

// Logs how many records repeat the caption of another clip.
void describe_copies(const pipeline::Progress& progress) {
  if (progress.clips_copied == 0) return;
  log_info("run", counted(progress.clips_copied, "record is that of another clip",
                          "records are those of other clips") +
                      " of the same content");
}

// Returns what the user can do about clips whose records were failures already. An --overwrite
// tries none of them again, and leaves `path` as it is while `path` holds a caption of one.
std::string what_mends_failures(const std::string& path, const std::string& beside) {
  if (beside.empty()) return "--retry-failed tries them again";
  return "while " + path +
         " holds a caption of one, it stays: mend or remove the film, or remove " + beside +
         " to begin anew";
}

// Logs how many records were resumed, carried over, copied or kept. `beside` is the file of an
// --overwrite in which an interrupted run left records; empty without --overwrite.
void describe_records(const std::string& path, const std::string& beside,
                      const pipeline::Progress& progress) {
  const std::int64_t total = progress.num_wanted();
  if (progress.clips_found > 0) {
    const bool is_one = progress.clips_found == 1;
    const std::string found = std::to_string(progress.clips_found) + " of " +
                              counted(total, progress.num_prompts == 1 ? "clip" : "caption");
    std::string message = beside.empty()
                              ? path + ": resumed; " + found + (is_one ? " is in it" : " are in it")
                              : path + ": the interrupted --overwrite went on; " + found +
                                    (is_one ? " was in " : " were in ") + beside;
    // The exit code tells of failures, so -q does not hide why.
    if (progress.found_failed > 0) {
      log_warning("run", message + ", " + std::to_string(progress.found_failed) +
                             " of them failed (" + what_mends_failures(path, beside) + ")");
    } else {
      log_info("run", message);
    }
  }
  if (progress.clips_moved > 0) {
    log_info("run",
             counted(progress.clips_moved, "record was carried over to the new name of its clip",
                     "records were carried over to the new names of their clips"));
  }
  describe_copies(progress);
  if (progress.clips_kept > 0) {
    log_warning("run",
                counted(progress.clips_kept, "earlier record stays", "earlier records stay") +
                    ": what was made again failed, or came out no better");
  }
}

// The reason why an overwriting run does not replace the old file.
const char* describe_lack(const pipeline::Progress& progress, records::RecordFile::Ending ending) {
  if (ending == records::RecordFile::Ending::kOldHasCaptions) {
    return "a clip that has a caption in it failed";
  }
  const bool has_captions =
      progress.clips_done > progress.clips_failed || progress.clips_found > progress.found_failed;
  if (!has_captions) return "not one clip was captioned";
  return progress.folders_unread > 0 ? "a folder could not be read"
                                     : "not every clip could be read";
}

}  // namespace

void check_output(const OutputFlags& flags, const std::vector<std::string>& arguments) {
  if (flags.is_given && flags.path.empty()) {
    throw Error(ErrorCode::kUsage, "-o \"\": the name is empty; give a file, or - for stdout");
  }
  choose_format(flags);
  retry_of(flags);
  if (flags.overwrite && (flags.retry_failed || !flags.retry.empty())) {
    throw Error(ErrorCode::kUsage,
                "--overwrite captions every clip again; --retry and --retry-failed keep the "
                "records of -o: give one of the two");
  }
  if (flags.is_stdout()) {
    if (!flags.retry_failed && !flags.overwrite && flags.retry.empty()) return;
    const std::string given = flags.overwrite      ? "--overwrite"
                              : flags.retry_failed ? "--retry-failed"
                                                   : "--retry";
    throw Error(ErrorCode::kUsage, given + " needs -o FILE");
  }
  for (const std::string& argument : arguments) {
    if (!is_same_file(argument, flags.path)) continue;
    throw Error(ErrorCode::kUsage, "-o " + flags.path +
                                       ": is one of the files to be captioned; name another file "
                                       "for the records");
  }
}

records::Manifest make_manifest(const config::Preset& preset, const model::CaptionModel& model,
                                const Sha256& model_hash, const pipeline::Options& options) {
  records::Manifest manifest{.settings = {}, .make_comparable = config::make_comparable};
  if (!options.system.empty()) manifest.settings.emplace_back("system", options.system);
  for (std::size_t i = 0; i < options.examples.size(); ++i) {
    manifest.settings.emplace_back("example." + std::to_string(i + 1),
                                   pipeline::describe_example(options.examples[i]));
  }
  for (const pipeline::Prompt& prompt : options.prompts) {
    manifest.settings.emplace_back(prompt.name.empty() ? "prompt" : "prompt." + prompt.name,
                                   prompt.text);
  }
  for (auto& setting :
       config::caption_settings(model.context(), preset, model_hash, model.adapters())) {
    manifest.settings.push_back(std::move(setting));
  }
  return manifest;
}

std::unique_ptr<records::OutputPreview> preview_output(const OutputFlags& flags,
                                                       const records::Manifest& manifest,
                                                       records::KnownBy known_by) {
  if (flags.is_stdout()) return nullptr;
  require_writable(flags);
  return std::make_unique<records::OutputPreview>(flags.path, choose_format(flags), manifest,
                                                  existing_of(flags), retry_of(flags), known_by);
}

std::optional<config::WeightFormat> weights_of_output(const OutputFlags& flags) {
  if (flags.is_stdout()) return std::nullopt;
  // records::RecordFile follows a link: what it writes lies beside the target.
  const std::string written = real_path(flags.path).string() + (flags.overwrite ? ".new" : "");
  std::error_code ignored;
  if (std::filesystem::file_size(written, ignored) == 0 || ignored) return std::nullopt;
  try {
    const auto manifest = records::read_manifest(records::manifest_path(written));
    if (!manifest.has_value()) return std::nullopt;
    for (const auto& [name, value] : manifest->settings) {
      if (name != "quantization.weights") continue;
      const auto found = config::find_choice<config::WeightFormat>(value);
      return found == config::WeightFormat::kAuto ? std::nullopt : found;
    }
  } catch (const Error& error) {
    // Opening the output will report the error.
    if (is_of_machine(error.code())) throw;
  }
  return std::nullopt;
}

void add_captions_of_output(const OutputFlags& flags, const std::atomic<bool>& cancelled,
                            pipeline::DraftOptions& drafts) {
  if (drafts.how.method != drafts::Method::kArchive || flags.is_stdout()) return;
  std::error_code ignored;  // opening the output reports it
  const bool is_file = std::filesystem::is_regular_file(flags.path, ignored);
  if (choose_format(flags) != records::Format::kJsonl || !is_file) return;
  config::add_known_captions(config::earlier_captions(flags.path, &cancelled), drafts);
}

std::string describe_output(const OutputFlags& flags) {
  const std::string format = flags.is_stdout() && flags.is_streamed
                                 ? "the caption alone, as it comes"
                                 : std::string(records::format_name(choose_format(flags)));
  return (flags.is_stdout() ? "standard output" : records::escape_file_name(flags.path)) + " (" +
         format + ")";
}

bool RunOutput::can_continue() const { return file_ != nullptr && can_continue_; }

std::string RunOutput::unfinished_file() const {
  return file_ != nullptr && file_->is_beside() ? file_->written_path().string() : std::string();
}

RunOutput::RunOutput(const OutputFlags& flags, const records::Manifest& manifest)
    : path_(flags.path) {
  const records::Format format = choose_format(flags);
  can_continue_ = format == records::Format::kJsonl;
  if (flags.is_stdout()) {
    if (flags.is_streamed) {
      sink_ = std::make_unique<NoRecords>();
    } else {
      sink_ = std::make_unique<records::StreamSink>(STDOUT_FILENO, format,
                                                    records::settings_key(manifest));
      const bool is_shown = ::isatty(STDOUT_FILENO) == 1 && stderr_is_terminal();
      if (is_shown) sink_ = std::make_unique<AboveStatusLine>(std::move(sink_));
    }
    return;
  }
  require_writable(flags);
  auto file = std::make_unique<records::RecordFile>(flags.path, format, manifest,
                                                    existing_of(flags), retry_of(flags));
  file_ = file.get();
  sink_ = std::move(file);
  if (file_->is_beside()) {
    log_info("run", path_ + ": stays as it is until the run is finished; records are written to " +
                        file_->written_path().string());
  }
  if (file_->num_found() > 0) {
    log_info("run", file_->written_path().string() + ": goes on with the " +
                        counted(file_->num_found(), "record") + " that it has");
  }
}

void RunOutput::finish(const pipeline::Outcome& outcome) {
  const bool is_finished = outcome.ending == pipeline::Ending::kFinished;
  if (file_ == nullptr) return is_finished ? describe_copies(outcome.progress) : void();
  if (!is_finished) return file_->sync();
  if (outcome.progress.folders_unread > 0) file_->note_unread();
  const bool is_beside = file_->is_beside();
  const std::string beside = file_->written_path().string();
  const records::RecordFile::Ending ending = file_->finish();
  describe_records(path_, is_beside ? beside : "", outcome.progress);
  if (is_beside && ending == records::RecordFile::Ending::kInPlace) {
    log_info("run", path_ + ": replaced by the records of this run");
    if (const std::int64_t dropped = file_->num_dropped(); dropped > 0) {
      log_warning("run", path_ + ": " + counted(dropped, "caption") +
                             " of clips or prompts that this run did not name " +
                             (dropped == 1 ? "was" : "were") + " in the old file and " +
                             (dropped == 1 ? "is" : "are") + " gone with it");
    }
  }
  if (ending != records::RecordFile::Ending::kInPlace) {
    log_warning("run", path_ + ": stays as it was, because " +
                           describe_lack(outcome.progress, ending) +
                           "; the records of this run are in " + beside);
  }
}

}  // namespace caption::cli
