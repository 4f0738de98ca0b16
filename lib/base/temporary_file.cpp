#include "base/temporary_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/durable_file.h"
#include "base/error.h"

namespace caption {
namespace {

[[noreturn]] void fail(const std::filesystem::path& folder, const std::string& what, int error) {
  throw Error(output_error_code(error), folder.string() + ": cannot " + what +
                                            " a temporary file there: " + describe_errno(error) +
                                            "; TMPDIR names another folder");
}

// Returns -1 with errno set when no file can be made.
int open_unnamed(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  // File systems that make no unnamed files, and kernels that do not know them.
  const bool is_unknown = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
  if (descriptor >= 0 || !is_unknown) return descriptor;
  std::string name = folder / "caption-cli.XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

TemporaryFile::TemporaryFile(const std::filesystem::path& folder)
    : folder_(folder), file_(open_unnamed(folder)) {
  if (file_.get() < 0) fail(folder_, "make", errno);
}

void TemporaryFile::reserve(std::int64_t bytes) const {
  if (bytes <= 0) return;  // fallocate() refuses to allocate nothing
  int result = -1;
  do {
    result = ::fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, 0, bytes);
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return;
  fail(folder_, "reserve " + std::to_string(bytes) + " bytes for", errno);
}

void TemporaryFile::write_at(std::int64_t position, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file_.get(), bytes.data(), bytes.size(), position);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(folder_, "write", errno);
    position += count;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void TemporaryFile::read_at(std::int64_t position, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(file_.get(), bytes.data(), bytes.size(), position);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(folder_, "read", errno);
    if (count == 0) {
      throw Error(ErrorCode::kIo, folder_.string() + ": a temporary file there ends at byte " +
                                      std::to_string(position) + ", before what was written");
    }
    position += count;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace caption
