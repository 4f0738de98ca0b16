#include "records/record_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "records/internal/file_system.h"
#include "records/internal/lines.h"

namespace caption::records {
namespace {

// Of the manifest's settings: what records were made again with.
constexpr const char* kRetriedWith = "retried_with";

std::string reason(int error) { return std::strerror(error); }

bool begins_with_one_of(const std::string& name, const std::vector<std::string>& begins) {
  return std::any_of(begins.begin(), begins.end(),
                     [&](const std::string& begin) { return name.starts_with(begin); });
}

Manifest without(Manifest manifest, const std::vector<std::string>& names) {
  std::erase_if(manifest.settings,
                [&](const auto& setting) { return begins_with_one_of(setting.first, names); });
  return manifest;
}

// Adds to `there` that the records of these statuses are made again with other settings:
// "truncated: generation.max_new_tokens=256". False when the settings are the
// same, or the last note says so already.
bool note_retry(const Retry& retry, Manifest& there, const Manifest& now) {
  if (retry.statuses.empty()) return false;
  std::string changes;
  for (const auto& setting : now.settings) {
    const bool is_changed =
        begins_with_one_of(setting.first, retry.changeable) &&
        std::find(there.settings.begin(), there.settings.end(), setting) == there.settings.end();
    if (is_changed) changes += " " + setting.first + "=" + setting.second;
  }
  if (changes.empty()) return false;
  std::string statuses;
  for (const Status status : retry.statuses) {
    statuses += (statuses.empty() ? "" : ",") + std::string(status_name(status));
  }
  const std::string note = statuses + ":" + changes;
  const auto noted =
      std::find_if(there.settings.begin(), there.settings.end(),
                   [](const auto& setting) { return setting.first == kRetriedWith; });
  if (noted == there.settings.end()) {
    there.settings.emplace_back(kRetriedWith, note);
    return true;
  }
  if (noted->second == note || noted->second.ends_with("; " + note)) return false;
  noted->second += "; " + note;
  return true;
}

// The file itself where `path` is a link to it: replacing the link would split the two.
std::filesystem::path real_path(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
  return error ? path : real;
}

void refuse_special_file(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  throw Error(ErrorCode::kUsage, path.string() + ": is " +
                                     (S_ISDIR(status.st_mode) ? "a folder" : "no regular file") +
                                     "; -o wants a file, and without -o records go to stdout");
}

bool is_same_file(int descriptor, const std::filesystem::path& path) {
  struct stat open_status {};
  struct stat path_status {};
  return ::fstat(descriptor, &open_status) == 0 && ::stat(path.c_str(), &path_status) == 0 &&
         open_status.st_dev == path_status.st_dev && open_status.st_ino == path_status.st_ino;
}

// Opens and locks the file that `path` names. The run that held the lock before may have replaced
// the file in between; then the lock is on a file without a name, and the next try gets the new
// one.
Descriptor open_locked(const std::filesystem::path& path) {
  for (;;) {
    Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (descriptor.get() < 0) {
      throw Error(ErrorCode::kIo, path.string() + ": cannot open for writing: " + reason(errno));
    }
    if (::flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) {
        throw Error(ErrorCode::kIo, path.string() + ": cannot lock: " + reason(errno));
      }
      throw Error(ErrorCode::kOutputConflict,
                  path.string() +
                      ": another run is writing this file; wait for it, or give "
                      "another -o");
    }
    if (is_same_file(descriptor.get(), path)) return descriptor;
  }
}

std::int64_t size_of(int descriptor, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    throw Error(ErrorCode::kIo, path.string() + ": " + reason(errno));
  }
  return status.st_size;
}

void truncate_to(int descriptor, std::int64_t size_bytes, const std::filesystem::path& path) {
  if (::ftruncate(descriptor, size_bytes) != 0 || ::fsync(descriptor) != 0) {
    throw Error(ErrorCode::kIo, path.string() + ": cannot truncate: " + reason(errno));
  }
}

// Returns the manifest that is there. Settings that a retry may change are not compared.
Manifest require_same_run(const std::filesystem::path& path, Format format,
                          const Manifest& manifest, const Retry& retry) {
  const std::optional<Manifest> there = read_manifest(manifest_path(path));
  if (!there) {
    throw Error(ErrorCode::kOutputConflict,
                path.string() + ": exists, but has no manifest (" +
                    manifest_path(path).filename().string() +
                    "), so it is not the output of an earlier run; --overwrite replaces it");
  }
  std::vector<std::string> ignored = {kRetriedWith};
  if (!retry.statuses.empty()) {
    ignored.insert(ignored.end(), retry.changeable.begin(), retry.changeable.end());
  }
  const std::string differences =
      describe_differences(without(*there, ignored), without(manifest, ignored));
  if (!differences.empty()) {
    throw Error(ErrorCode::kOutputConflict,
                path.string() + ": belongs to a run with another configuration: " + differences +
                    "; give another -o, or --overwrite to start anew");
  }
  if (format != Format::kJsonl) {
    throw Error(ErrorCode::kOutputConflict,
                path.string() + ": exists, and a " + std::string(format_name(format)) +
                    " file cannot be resumed; use --format jsonl, another -o, or --overwrite");
  }
  return *there;
}

std::string without_lines_of(const std::filesystem::path& path,
                             const std::vector<Status>& statuses) {
  const MappedFile file(path);
  std::string kept;
  for_each_line(as_text(file.bytes()), [&](std::string_view line) {
    const Record record = parse_json_line(line.substr(0, line.size() - 1));
    const bool is_retried =
        std::find(statuses.begin(), statuses.end(), record.status) != statuses.end();
    if (!is_retried) kept += line;
  });
  return kept;
}

}  // namespace

struct RecordFile::State {
  std::filesystem::path path;
  Format format = Format::kJsonl;
  Descriptor descriptor;
  ResumeIndex finished;

  void write_durably(const std::string& text) {
    const std::int64_t size_before = size_of(descriptor.get(), path);
    int error = write_whole(descriptor.get(), text);
    if (error == 0 && ::fdatasync(descriptor.get()) != 0) error = errno;
    if (error == 0) return;
    // A full disk may have taken half a line.
    std::string message = path.string() + ": cannot write: " + reason(error);
    if (::ftruncate(descriptor.get(), size_before) != 0) message += "; the last line is torn";
    throw Error(ErrorCode::kIo, message);
  }

  // Reads what an earlier run left; cuts off a torn line.
  void take_up() {
    finished = ResumeIndex::read(path);
    if (finished.torn_bytes() == 0) return;
    log_warning("records", path.string() + ": the last line is torn (" +
                               std::to_string(finished.torn_bytes()) +
                               " bytes of an interrupted write); it is cut off and its clip is "
                               "captioned again");
    truncate_to(descriptor.get(), finished.complete_bytes(), path);
  }

  void drop(const Retry& retry, Manifest there, const Manifest& now) {
    if (note_retry(retry, there, now)) write_manifest(manifest_path(path), there);
    std::int64_t num_retried = 0;
    for (const Status status : retry.statuses) num_retried += finished.num_of(status);
    if (num_retried == 0) return;
    // The old file's lock is held until the new one is locked.
    const std::string kept = without_lines_of(path, retry.statuses);
    write_file_atomically(path, kept);
    Descriptor old = std::exchange(descriptor, open_locked(path));
    finished = ResumeIndex::read(path);
  }
};

RecordFile::RecordFile(const std::filesystem::path& path, Format format, const Manifest& manifest,
                       Existing existing, const Retry& retry)
    : state_(std::make_unique<State>()) {
  refuse_special_file(path);
  state_->path = real_path(path);
  state_->format = format;
  state_->descriptor = open_locked(state_->path);
  const int descriptor = state_->descriptor.get();
  if (existing == Existing::kOverwrite) truncate_to(descriptor, 0, state_->path);

  if (size_of(descriptor, state_->path) == 0) {
    write_manifest(manifest_path(state_->path), manifest);
    sync_folder(state_->path.parent_path());
    const std::string header = format_header(format);
    if (!header.empty()) state_->write_durably(header);
    return;
  }
  Manifest there = require_same_run(state_->path, format, manifest, retry);
  state_->take_up();
  state_->drop(retry, std::move(there), manifest);
}

RecordFile::~RecordFile() = default;

AppendResult RecordFile::append(const Record& record) {
  state_->write_durably(format_record(state_->format, record));
  return AppendResult::kWritten;
}

const ResumeIndex& RecordFile::finished() const { return state_->finished; }

}  // namespace caption::records
