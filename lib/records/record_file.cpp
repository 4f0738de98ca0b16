#include "records/record_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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

std::string reason(int error) { return std::strerror(error); }

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

void require_same_run(const std::filesystem::path& path, Format format, const Manifest& manifest) {
  const std::optional<Manifest> there = read_manifest(manifest_path(path));
  if (!there) {
    throw Error(ErrorCode::kOutputConflict,
                path.string() + ": exists, but has no manifest (" +
                    manifest_path(path).filename().string() +
                    "), so it is not the output of an earlier run; --overwrite replaces it");
  }
  const std::string differences = describe_differences(*there, manifest);
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
}

std::string without_failed_lines(const std::filesystem::path& path) {
  const MappedFile file(path);
  std::string kept;
  for_each_line(as_text(file.bytes()), [&](std::string_view line) {
    const Record record = parse_json_line(line.substr(0, line.size() - 1));
    if (record.status != Status::kFailed) kept += line;
  });
  return kept;
}

}  // namespace

struct RecordFile::State {
  std::filesystem::path path;
  Format format;
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

  void drop_failed() {
    if (finished.num_failed() == 0) return;
    // The old file's lock is held until the new one is locked.
    const std::string kept = without_failed_lines(path);
    write_file_atomically(path, kept);
    Descriptor old = std::exchange(descriptor, open_locked(path));
    finished = ResumeIndex::read(path);
  }
};

RecordFile::RecordFile(const std::filesystem::path& path, Format format, const Manifest& manifest,
                       Existing existing)
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
  require_same_run(state_->path, format, manifest);
  state_->take_up();
  if (existing == Existing::kRetryFailed) state_->drop_failed();
}

RecordFile::~RecordFile() = default;

AppendResult RecordFile::append(const Record& record) {
  state_->write_durably(format_record(state_->format, record));
  return AppendResult::kWritten;
}

const ResumeIndex& RecordFile::finished() const { return state_->finished; }

}  // namespace caption::records
