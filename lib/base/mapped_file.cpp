#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"

namespace caption {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error_number) {
  throw Error(error_code_of_errno(error_number),
              path.string() + ": " + describe_errno(error_number));
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Owns a file descriptor for the length of a scope.
class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
      fail(path, errno);
    }
    if (!S_ISREG(status.st_mode)) {
      throw Error(ErrorCode::kNotRegularFile,
                  path.string() + ": is " + kind_of(status.st_mode) + ", not a regular file");
    }
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0) fail(path, errno);
    size_bytes_ = static_cast<std::size_t>(status.st_size);
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  int descriptor_ = -1;
  std::size_t size_bytes_ = 0;
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const OpenFile file(path);
  size_bytes_ = file.size_bytes();
  if (size_bytes_ == 0) return;
  void* address = ::mmap(nullptr, size_bytes_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (address == MAP_FAILED) {
    const int error_number = errno;
    throw Error(error_code_of_errno(error_number),
                path.string() + ": cannot map: " + describe_errno(error_number));
  }
  begin_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() { unmap(); }

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      begin_(std::exchange(other.begin_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    path_ = std::move(other.path_);
    begin_ = std::exchange(other.begin_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
  }
  return *this;
}

void MappedFile::unmap() {
  if (begin_ != nullptr) ::munmap(const_cast<std::byte*>(begin_), size_bytes_);
}

void release_pages(std::span<const std::byte> bytes) {
  const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = (begin + page_bytes - 1) / page_bytes * page_bytes;
  const std::uintptr_t last = (begin + bytes.size()) / page_bytes * page_bytes;
  if (last <= first) return;
  // Advice: that the system does not follow it costs memory, nothing else.
  // NOLINTNEXTLINE(performance-no-int-to-ptr): whole pages, of which nothing is read through it
  ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() > max_bytes) {
    throw Error(ErrorCode::kTooLarge, path.string() + ": " + std::to_string(bytes.size()) +
                                          " bytes; at most " + std::to_string(max_bytes) +
                                          " are expected of such a file");
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void require_regular_file(const std::filesystem::path& path) { const OpenFile file(path); }

}  // namespace caption
