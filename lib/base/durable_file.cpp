#include "base/durable_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

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
  const std::filesystem::path temporary = path.string() + ".new";
  {
    const FileDescriptor descriptor(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (descriptor.get() < 0) throw_io(temporary, "create the file", errno);
    struct stat old {};
    if (::stat(path.c_str(), &old) == 0) ::fchmod(descriptor.get(), old.st_mode & kPermissions);
    int error = write_whole(descriptor.get(), text);
    if (error == 0 && ::fsync(descriptor.get()) != 0) error = errno;
    if (error != 0) {
      ::unlink(temporary.c_str());
      throw_io(temporary, "write", error);
    }
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    throw_io(path, "replace the file", error);
  }
  sync_folder(path.parent_path());
}

}  // namespace caption
