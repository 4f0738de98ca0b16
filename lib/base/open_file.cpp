#include "base/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace caption {
namespace {

// Large enough to make the cost of a system call negligible, small enough for the L2 cache.
constexpr std::int64_t kReadBytes = 256 << 10;

[[noreturn]] void fail(const std::filesystem::path& path, ErrorCode code, int error_number) {
  throw Error(code, path.string() + ": " + describe_errno(error_number));
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

std::int64_t ns_of(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

FileStamp to_stamp(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size_bytes = status.st_size,
          .modified_ns = ns_of(status.st_mtim),
          .changed_ns = ns_of(status.st_ctim)};
}

}  // namespace

bool is_present(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() !=
         std::filesystem::file_type::not_found;
}

OpenFile::OpenFile(const std::filesystem::path& path) : path_(path) {
  struct stat status {};
  // O_NONBLOCK: opening a FIFO does not wait for a writer.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const int open_error = descriptor_ < 0 ? errno : 0;
  // A socket cannot be opened, nor can some devices: the message then names the kind of file
  // instead of the reason of open().
  const int stat_status =
      descriptor_ < 0 ? ::stat(path.c_str(), &status) : ::fstat(descriptor_, &status);
  const int stat_error = stat_status == 0 ? 0 : errno;
  if (stat_error == 0 && !S_ISREG(status.st_mode)) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw Error(ErrorCode::kNotRegularFile,
                path.string() + ": is " + kind_of(status.st_mode) + ", not a regular file");
  }
  if (open_error == ENOENT && is_present(path)) {
    throw Error(ErrorCode::kNotFound, path.string() + ": is a link to a file that is not there");
  }
  if (open_error != 0) fail(path, error_code_of_errno(open_error), open_error);
  if (stat_error != 0) {
    ::close(descriptor_);
    fail(path, ErrorCode::kIo, stat_error);
  }
  stamp_ = to_stamp(status);
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      stamp_(other.stamp_) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(stamp_, other.stamp_);
  return *this;
}

FileStamp OpenFile::stamp_now() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail(path_, ErrorCode::kIo, errno);
  return to_stamp(status);
}

std::size_t OpenFile::read_at(std::int64_t position, std::span<std::byte> bytes) const {
  ssize_t count = 0;
  do {
    count = ::pread(descriptor_, bytes.data(), bytes.size(), position);
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    throw Error(ErrorCode::kIo, path_.string() + ": cannot be read at byte " +
                                    std::to_string(position) + ": " + describe_errno(errno));
  }
  return static_cast<std::size_t>(count);
}

Sha256 OpenFile::sha256(const std::atomic<bool>* cancelled) const {
  // posix_fadvise() is only advice: if the system ignores it, reading is slower, nothing else.
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
  Sha256Hasher hasher;
  std::vector<std::byte> chunk(
      static_cast<std::size_t>(std::clamp<std::int64_t>(size_bytes(), 1, kReadBytes)));
  for (std::int64_t position = 0;;) {
    if (cancelled != nullptr && cancelled->load()) {
      throw Error(ErrorCode::kCancelled, path_.string() + ": interrupted while it was read");
    }
    const std::size_t count = read_at(position, chunk);
    if (count == 0) break;
    hasher.update(std::span(chunk).first(count));
    position += static_cast<std::int64_t>(count);
  }
  ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_NORMAL);
  return hasher.digest();
}

std::optional<FileStamp> stamp_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return to_stamp(status);
}

bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  const std::optional<FileStamp> first = stamp_of(a);
  const std::optional<FileStamp> second = stamp_of(b);
  return first.has_value() && second.has_value() && first->device == second->device &&
         first->inode == second->inode;
}

}  // namespace caption
