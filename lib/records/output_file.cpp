#include "records/internal/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_descriptor.h"

namespace caption::records {
namespace {

constexpr std::int64_t kMaxUnsyncedUs = 100'000;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorCode::kIo, path.string() + ": " + what);
}

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what, int error) {
  throw Error(output_error_code(error), path.string() + ": " + what + ": " + describe_errno(error));
}

struct stat status_of(int descriptor, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail(path, "cannot be examined", errno);
  return status;
}

bool is_same_file(int descriptor, const std::filesystem::path& path) {
  struct stat open_status {};
  struct stat path_status {};
  return ::fstat(descriptor, &open_status) == 0 && ::stat(path.c_str(), &path_status) == 0 &&
         open_status.st_dev == path_status.st_dev && open_status.st_ino == path_status.st_ino;
}

// Opens and locks the file that `path` names. Another run may have replaced the file between open()
// and flock(); the lock is then on a file without a name, and the loop opens the new one.
FileDescriptor open_locked(const std::filesystem::path& path) {
  for (;;) {
    FileDescriptor descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (descriptor.get() < 0) fail(path, "cannot open for writing", errno);
    if (::flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) fail(path, "cannot lock", errno);
      throw Error(
          ErrorCode::kOutputConflict,
          path.string() + ": another run is writing this file; wait for it, or give another -o");
    }
    if (is_same_file(descriptor.get(), path)) return descriptor;
  }
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path)
    : path_(path),
      descriptor_(open_locked(path)),
      size_bytes_(status_of(descriptor_.get(), path).st_size) {}

void OutputFile::require_untouched() const {
  const struct stat status = status_of(descriptor_.get(), path_);
  if (status.st_nlink == 0 || !is_same_file(descriptor_.get(), path_)) {
    fail(path_,
         "was deleted, moved or replaced while it was written; the records in it are lost "
         "to this name, and the same command makes them again");
  }
  if (status.st_size != size_bytes_) {
    fail(path_, "was changed by another program while it was written: it has " +
                    std::to_string(status.st_size) + " bytes and should have " +
                    std::to_string(size_bytes_) + "; look at it before the run is repeated");
  }
}

void OutputFile::append(std::string_view text, Durability durability) {
  require_untouched();
  int error = write_whole(descriptor_.get(), text);
  is_synced_ = false;
  const bool must_sync =
      durability == Durability::kNow || now_us() - synced_at_us_ > kMaxUnsyncedUs;
  if (error == 0 && must_sync && ::fdatasync(descriptor_.get()) != 0) error = errno;
  if (error != 0) {
    // On a full disk, a part of the line may have been written.
    const bool is_whole = ::ftruncate(descriptor_.get(), size_bytes_) == 0;
    if (!is_whole) fail(path_, "cannot write, and the last line is torn", error);
    throw Error(output_error_code(error), path_.string() +
                                              ": cannot write: " + describe_errno(error) +
                                              "; the records in it are kept");
  }
  size_bytes_ += static_cast<std::int64_t>(text.size());
  if (!must_sync) return;
  is_synced_ = true;
  synced_at_us_ = now_us();
}

void OutputFile::sync() {
  if (is_synced_) return;
  if (::fdatasync(descriptor_.get()) != 0) fail(path_, "cannot write", errno);
  is_synced_ = true;
}

void OutputFile::truncate(std::int64_t size_bytes) {
  if (::ftruncate(descriptor_.get(), size_bytes) != 0 || ::fsync(descriptor_.get()) != 0) {
    fail(path_, "cannot truncate", errno);
  }
  size_bytes_ = size_bytes;
}

std::string OutputFile::read(std::int64_t offset, std::int64_t size_bytes) const {
  std::string text(static_cast<std::size_t>(size_bytes), '\0');
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::pread(descriptor_.get(), text.data() + done, text.size() - done,
                                  offset + static_cast<std::int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path_, "cannot be read", errno);
    if (count == 0) fail(path_, "was cut by another program while it was written");
    done += static_cast<std::size_t>(count);
  }
  return text;
}

void OutputFile::take_place_of(const std::filesystem::path& target) {
  if (::fsync(descriptor_.get()) != 0) fail(path_, "cannot write", errno);
  // The new file keeps the owner and the mode of the old one where the system permits it.
  struct stat old {};
  if (::stat(target.c_str(), &old) == 0) {
    if (::fchown(descriptor_.get(), old.st_uid, old.st_gid) != 0) errno = 0;
    if (::fchmod(descriptor_.get(), old.st_mode & 07777) != 0) errno = 0;
  }
  if (std::rename(path_.c_str(), target.c_str()) != 0) {
    fail(target, "cannot be replaced, and the records are in " + path_.string(), errno);
  }
  path_ = target;
  sync_folder(target.parent_path());
}

}  // namespace caption::records
