// base/open_file.h: a regular file that is open for reading, and what tells that it changed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "base/sha256.h"

namespace caption {

// Changes whenever a file's bytes do: writing sets both times, and nobody can set the second one
// back. Renaming a file or linking to it changes the second time too.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size_bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970
  std::int64_t changed_ns = 0;   // since 1970

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// Owns a descriptor; movable. Reading is thread-safe: it uses positions of its own.
class OpenFile {
 public:
  // Never blocks on a FIFO. Throws Error: kNotFound, kNotRegularFile (folder, FIFO, socket,
  // device), kUnreadable, kOutOfMemory (no descriptor or memory left), kIo.
  explicit OpenFile(const std::filesystem::path& path);
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;

  int descriptor() const { return descriptor_; }
  const std::filesystem::path& path() const { return path_; }
  std::int64_t size_bytes() const { return stamp_.size_bytes; }  // when it was opened
  const FileStamp& stamp() const { return stamp_; }              // when it was opened
  // Throws Error(kIo).
  FileStamp stamp_now() const;

  // Reads up to bytes.size() bytes at a position; 0 at the end. Throws Error(kIo) with the position
  // and the system's reason.
  std::size_t read_at(std::int64_t position, std::span<std::byte> bytes) const;

  // Reads the whole content as it is now and returns its digest; asks the system to read ahead.
  // Throws Error(kIo), and Error(kCancelled) soon after `cancelled` (may be null) has become true.
  Sha256 sha256(const std::atomic<bool>* cancelled = nullptr) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  FileStamp stamp_;
};

// What stat() says of a path, links followed; std::nullopt when there is nothing.
std::optional<FileStamp> stamp_of(const std::filesystem::path& path);

// Whether both paths lead to one file: through links, or by several names. False when one is not
// there.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace caption
