#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "base/file_descriptor.h"
#include "base/mend_advice.h"

namespace caption {
namespace {

#if defined(MADV_POPULATE_READ)
constexpr int kPopulateRead = MADV_POPULATE_READ;
#else
constexpr int kPopulateRead = 22;  // Linux's number; the C library may be older
#endif

// Calls madvise() for the pages of `bytes`; returns whether it succeeded. The system may ignore
// such advice: pages are then read when they are accessed.
bool advise_pages(std::span<const std::byte> bytes, int advice) {
  if (bytes.empty()) return true;
  const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = begin / page_bytes * page_bytes;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): whole pages; nothing is read through the pointer
  return ::madvise(reinterpret_cast<void*>(first), begin + bytes.size() - first, advice) == 0;
}

// In files of at least so many bytes the system is asked for huge pages: to map and to release a GB
// of small ones took up to 0.07 s of processor time, of huge ones 0.002 s. It gives them where the
// page cache has them, which is when the file system can and the file was read by this mapping.
constexpr std::size_t kHugeFileBytes = std::size_t{32} << 20;

[[noreturn]] void fail_too_large(const std::filesystem::path& path, std::size_t size_bytes,
                                 std::size_t max_bytes) {
  throw Error(ErrorCode::kTooLarge, path.string() + ": " + std::to_string(size_bytes) +
                                        " bytes; at most " + std::to_string(max_bytes) +
                                        " are expected of such a file");
}

[[noreturn]] void fail_to_read(const std::filesystem::path& path) {
  const int error_number = errno;
  throw Error(error_code_of_errno(error_number),
              path.string() + ": " + describe_errno(error_number));
}

std::string read_fifo(const std::filesystem::path& path, std::size_t max_bytes) {
  const FileDescriptor fifo(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fifo.get() < 0) fail_to_read(path);
  constexpr std::size_t kChunkBytes = 64u << 10;
  std::string text;
  for (;;) {
    const std::size_t begin = text.size();
    text.resize(begin + kChunkBytes);
    const ssize_t count = ::read(fifo.get(), text.data() + begin, kChunkBytes);
    text.resize(begin + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) return text;
    if (count < 0 && errno != EINTR) fail_to_read(path);
    if (text.size() > max_bytes) fail_too_large(path, text.size(), max_bytes);
  }
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : MappedFile(OpenFile(path)) {}

MappedFile::MappedFile(OpenFile file) : file_(std::move(file)) {
  const auto size_bytes = static_cast<std::size_t>(file_.size_bytes());
  if (size_bytes == 0) return;
  void* const address = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, file_.descriptor(), 0);
  if (address == MAP_FAILED) {
    const int error_number = errno;
    throw Error(error_code_of_errno(error_number), path().string() + ": cannot map " +
                                                       std::to_string(size_bytes) +
                                                       " bytes: " + describe_errno(error_number));
  }
  try {
    guard_ = PageGuard(static_cast<const std::byte*>(address), size_bytes);
  } catch (...) {
    ::munmap(address, size_bytes);
    throw;
  }
  begin_ = static_cast<const std::byte*>(address);
  size_bytes_ = size_bytes;
  if (size_bytes >= kHugeFileBytes) ::madvise(address, size_bytes, MADV_HUGEPAGE);
}

MappedFile::~MappedFile() {
  if (begin_ == nullptr) return;
  guard_ = PageGuard();  // unregisters the range before another mapping can get these addresses
  ::munmap(const_cast<std::byte*>(begin_), size_bytes_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : file_(std::move(other.file_)),
      begin_(std::exchange(other.begin_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      guard_(std::move(other.guard_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(begin_, other.begin_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(guard_, other.guard_);
  return *this;
}

void populate_pages(std::span<const std::byte> bytes) {
  // Linux before 5.14 does not know it.
  if (!advise_pages(bytes, kPopulateRead) && errno == EINVAL) request_pages(bytes);
}

void request_pages(std::span<const std::byte> bytes) { advise_pages(bytes, MADV_WILLNEED); }

void release_pages(std::span<const std::byte> bytes) {
  const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = (begin + page_bytes - 1) / page_bytes * page_bytes;
  const std::uintptr_t last = (begin + bytes.size()) / page_bytes * page_bytes;
  if (last <= first) return;
  // madvise() is only advice: if the system ignores it, memory stays in use, nothing else.
  // NOLINTNEXTLINE(performance-no-int-to-ptr): whole pages; nothing is read through the pointer
  ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

std::string read_text(const OpenFile& file, std::size_t max_bytes) {
  const auto expected_bytes = static_cast<std::size_t>(file.size_bytes());
  if (expected_bytes > max_bytes) fail_too_large(file.path(), expected_bytes, max_bytes);
  std::string text;
  for (std::size_t chunk = std::max<std::size_t>(expected_bytes, 1);; chunk = 4096) {
    const std::size_t begin = text.size();
    text.resize(begin + chunk);
    const std::size_t count = file.read_at(static_cast<std::int64_t>(begin),
                                           std::as_writable_bytes(std::span(text).subspan(begin)));
    text.resize(begin + count);
    if (count == 0) return text;
    if (text.size() > max_bytes) fail_too_large(file.path(), text.size(), max_bytes);
  }
}

std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  return read_text(OpenFile(path), max_bytes);
}

std::string read_text_input(const std::filesystem::path& path, std::size_t max_bytes) {
  struct stat status {};
  const bool is_fifo = ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
  return is_fifo ? read_fifo(path, max_bytes) : read_text_file(path, max_bytes);
}

ErrorCode model_file_code(ErrorCode code) {
  return is_of_machine(code) ? code : ErrorCode::kBadModel;
}

std::string read_model_file(const std::filesystem::path& path) {
  try {
    return read_text_file(path);
  } catch (const Error& error) {
    const bool is_other_kind = error.code() == ErrorCode::kNotRegularFile;
    throw Error(model_file_code(error.code()),
                error.what() + (is_other_kind ? mend_advice(ErrorCode::kBadModel) : ""));
  }
}

void require_regular_file(const std::filesystem::path& path) { const OpenFile file(path); }

}  // namespace caption
