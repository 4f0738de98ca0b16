#include "run_output.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/open_file.h"
#include "config/identity.h"
#include "records/format.h"
#include "records/stream_sink.h"

namespace caption::cli {
namespace {

records::Format choose_format(const OutputFlags& flags) {
  if (!flags.format.empty()) return records::parse_format(flags.format);
  if (flags.is_stdout()) {
    const bool is_read_by_human = flags.path.empty() && ::isatty(STDOUT_FILENO) == 1;
    return is_read_by_human ? records::Format::kTxt : records::Format::kJsonl;
  }
  return records::format_of_suffix(flags.path).value_or(records::Format::kJsonl);
}

records::Retry retry_of(const OutputFlags& flags) {
  records::Retry retry;
  if (flags.retry_failed) retry.statuses.push_back(records::Status::kFailed);
  for (const std::string& name : flags.retry) {
    const std::optional<records::Status> status = records::find_status(name);
    if (!status.has_value() || status == records::Status::kOk) {
      throw Error(ErrorCode::kUsage,
                  "--retry: \"" + name + "\" is none of failed, truncated, suspicious");
    }
    retry.statuses.push_back(*status);
  }
  // How a caption is generated may be the reason for its status.
  if (!flags.retry.empty()) retry.changeable = {"generation."};
  return retry;
}

// Keeps no record: the caption has been said.
class NoRecords final : public records::RecordSink {
 public:
  records::AppendResult append(const records::Record& /*record*/) override {
    return records::AppendResult::kWritten;
  }
};

std::string clips(std::int64_t count, const char* one, const char* several) {
  return std::to_string(count) + " " + (count == 1 ? one : several);
}

// Logs how many records were resumed, carried over, copied or kept, and how many are suspicious.
void describe_records(const std::string& path, const pipeline::Progress& progress) {
  const std::int64_t total = progress.clips_found + progress.clips_kept + progress.clips_total;
  if (progress.clips_found > 0) {
    const bool is_by_clip = progress.num_prompts == 1;
    std::string message =
        path + ": resumed; " + std::to_string(progress.clips_found) + " of " +
        clips(total, is_by_clip ? "clip" : "caption", is_by_clip ? "clips" : "captions") +
        (progress.clips_found == 1 ? " is in it" : " are in it");
    if (progress.found_failed > 0) {
      message += ", " + std::to_string(progress.found_failed) +
                 " of them failed (--retry-failed tries them again)";
    }
    log_info("run", message);
  }
  if (progress.clips_moved > 0) {
    log_info("run",
             clips(progress.clips_moved, "record was carried over to the new name of its clip",
                   "records were carried over to the new names of their clips"));
  }
  if (progress.clips_copied > 0) {
    log_info("run", clips(progress.clips_copied, "record is that of another clip",
                          "records are those of other clips") +
                        " of the same content");
  }
  if (progress.clips_kept > 0) {
    log_warning("run", clips(progress.clips_kept, "earlier record stays", "earlier records stay") +
                           ": what was made again failed, or came out no better");
  }
  if (progress.clips_suspicious > 0) {
    log_warning("run", clips(progress.clips_suspicious, "caption is", "captions are") +
                           " suspicious: each record says why");
  }
}

}  // namespace

void check_output(const OutputFlags& flags, const std::vector<std::string>& arguments) {
  choose_format(flags);
  retry_of(flags);
  if (flags.is_stdout()) {
    if (!flags.retry_failed && !flags.overwrite && flags.retry.empty()) return;
    throw Error(ErrorCode::kUsage, "--retry, --retry-failed and --overwrite need -o FILE");
  }
  const std::optional<FileStamp> output = stamp_of(flags.path);
  if (!output.has_value()) return;
  for (const std::string& argument : arguments) {
    const std::optional<FileStamp> input = stamp_of(argument);
    if (!input.has_value() || input->device != output->device || input->inode != output->inode) {
      continue;
    }
    throw Error(ErrorCode::kUsage, "-o " + flags.path +
                                       ": is one of the files to be captioned; name another file "
                                       "for the records");
  }
}

records::Manifest make_manifest(const config::Preset& preset, const Sha256& model_hash,
                                const std::vector<pipeline::Prompt>& prompts) {
  records::Manifest manifest;
  for (const pipeline::Prompt& prompt : prompts) {
    manifest.settings.emplace_back(prompt.name.empty() ? "prompt" : "prompt." + prompt.name,
                                   prompt.text);
  }
  for (auto& setting : config::caption_settings(preset, model_hash)) {
    manifest.settings.push_back(std::move(setting));
  }
  return manifest;
}

bool RunOutput::can_continue() const { return file_ != nullptr && can_continue_; }

RunOutput::RunOutput(const OutputFlags& flags, const records::Manifest& manifest)
    : path_(flags.path) {
  const records::Format format = choose_format(flags);
  can_continue_ = format == records::Format::kJsonl;
  if (flags.is_stdout()) {
    if (flags.is_spoken) {
      sink_ = std::make_unique<NoRecords>();
    } else {
      sink_ = std::make_unique<records::StreamSink>(STDOUT_FILENO, format,
                                                    records::settings_key(manifest));
    }
    return;
  }
  const auto existing =
      flags.overwrite ? records::Existing::kOverwrite : records::Existing::kResume;
  auto file = std::make_unique<records::RecordFile>(flags.path, format, manifest, existing,
                                                    retry_of(flags));
  file_ = file.get();
  sink_ = std::move(file);
  if (file_->is_beside()) {
    log_info("run", path_ + ": stays as it is until the run is finished; records are written to " +
                        file_->written_path().string());
  }
}

void RunOutput::finish(const pipeline::Outcome& outcome) {
  if (file_ == nullptr) return;
  if (outcome.ending != pipeline::Ending::kFinished) return file_->sync();
  const std::string beside = file_->written_path().string();
  const records::RecordFile::Ending ending = file_->finish();
  describe_records(path_, outcome.progress);
  if (ending == records::RecordFile::Ending::kOldFileStays) {
    const pipeline::Progress& progress = outcome.progress;
    const bool has_captions =
        progress.clips_done > progress.clips_failed || progress.clips_found > progress.found_failed;
    log_warning("run",
                path_ + ": stays as it was, because " +
                    (has_captions ? "not every clip could be read" : "not one clip was captioned") +
                    "; the records of this run are in " + beside);
  }
}

}  // namespace caption::cli
