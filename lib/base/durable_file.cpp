#include "base/durable_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/file_descriptor.h"

namespace caption {
namespace {

constexpr mode_t kPermissions = 07777;  // the bits of a file's mode that chmod() sets

[[noreturn]] void throw_io(const std::filesystem::path& path, const char* what, int error) {
  throw Error(output_error_code(error),
              path.string() + ": cannot " + what + ": " + describe_errno(error));
}

// Gives `text` and the permissions of the file at `path`, if there is one, to a new file, and syncs
// it. Returns 0 or errno.
int fill(int descriptor, const std::filesystem::path& path, std::string_view text) {
  struct stat old {};
  if (::stat(path.c_str(), &old) == 0) ::fchmod(descriptor, old.st_mode & kPermissions);
  const int error = write_whole(descriptor, text);
  if (error != 0) return error;
  return ::fsync(descriptor) == 0 ? 0 : errno;
}

// Calls make(name) with temporary names in `folder` until one is free, and sets `name` to it.
// make() returns 0 or errno, and so does this.
template <class Make>
int make_with_free_name(const std::filesystem::path& folder, std::filesystem::path& name,
                        Make make) {
  constexpr int kMostTries = 1000;
  static std::atomic<unsigned> next{0};
  int error = EEXIST;
  for (int i = 0; i < kMostTries && error == EEXIST; ++i) {
    name = folder / (std::string(kTemporaryBegin) + std::to_string(::getpid()) + "-" +
                     std::to_string(next++));
    error = make(name);
  }
  return error;
}

// Writes a file with a temporary name in the folder of `path` and returns that name. Where the file
// system can do it, the file gets its name when it is whole, so that a process that is killed while
// it writes leaves nothing.
std::filesystem::path write_beside(const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path parent = path.parent_path();
  const std::filesystem::path folder = parent.empty() ? "." : parent;
  std::filesystem::path name;
  const FileDescriptor unnamed(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
  if (unnamed.get() >= 0) {
    if (const int error = fill(unnamed.get(), path, text); error != 0) {
      throw_io(path, "write", error);
    }
    const std::string link = "/proc/self/fd/" + std::to_string(unnamed.get());
    const int error = make_with_free_name(folder, name, [&](const std::filesystem::path& free) {
      constexpr int kHere = AT_FDCWD;
      return ::linkat(kHere, link.c_str(), kHere, free.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
    });
    if (error == 0) return name;
  }
  int number = -1;
  int error = make_with_free_name(folder, name, [&](const std::filesystem::path& free) {
    number = ::open(free.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return number >= 0 ? 0 : errno;
  });
  if (error != 0) throw_io(path, "write", error);
  const FileDescriptor named(number);
  error = fill(named.get(), path, text);
  if (error == 0) return name;
  ::unlink(name.c_str());
  throw_io(path, "write", error);
}

}  // namespace

ErrorCode output_error_code(int error_number) {
  const ErrorCode code = error_code_of_errno(error_number);
  return code == ErrorCode::kOutOfMemory ? code : ErrorCode::kIo;
}

int write_whole(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return errno;
      pollfd writable{.fd = descriptor, .events = POLLOUT, .revents = 0};
      ::poll(&writable, 1, -1);
      continue;
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

std::filesystem::path real_path(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  constexpr int kMostLinks = 40;  // as Linux follows
  std::error_code error;
  fs::path target = path;
  // weakly_canonical() keeps the name of a link whose target is missing.
  for (int links = 0; fs::is_symlink(target, error) && !fs::exists(target, error); ++links) {
    const fs::path next = fs::read_symlink(target, error);
    if (error || links == kMostLinks) return path;
    target = target.parent_path() / next;
  }
  fs::path real = fs::weakly_canonical(target, error);
  return error ? path : real;
}

void sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder.empty() ? "." : folder;
  const FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0) throw_io(path, "open the folder", errno);
  // EINVAL means that the file system does not support syncing a folder, so the error is ignored.
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL) throw_io(path, "sync the folder", errno);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  const std::filesystem::path temporary = write_beside(path, text);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    throw_io(path, "replace the file", error);
  }
  sync_folder(path.parent_path());
}

}  // namespace caption
