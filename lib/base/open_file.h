// base/open_file.h: a regular file that is open for reading, and a stamp that shows whether it
// changed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "base/sha256.h"

namespace caption {

// Identity and times of a file. The stamp changes whenever the file's bytes do: writing sets both
// times, and the second one (ctime) cannot be set back. Renaming a file or linking to it changes
// the second time too.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size_bytes = 0;
  std::int64_t modified_ns = 0;  // mtime, since 1970-01-01 UTC
  std::int64_t changed_ns = 0;   // ctime, since 1970-01-01 UTC

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

// Whether a folder has an entry of this name. A link counts whatever it leads to, and so does an
// entry that cannot be examined: reading it then says what is wrong, where a file that may be
// absent would otherwise be passed over.
bool is_present(const std::filesystem::path& path);

// Owns a descriptor; movable. Reading is thread-safe: it uses pread(), which does not move the
// file's offset.
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
  std::int64_t size_bytes() const { return stamp_.size_bytes; }  // size when opened
  const FileStamp& stamp() const { return stamp_; }              // stamp when opened
  // Throws Error(kIo).
  FileStamp stamp_now() const;

  // Reads up to bytes.size() bytes at byte `position` and returns their number; 0 at the end of the
  // file. Throws Error(kIo) with the position and the system's reason.
  std::size_t read_at(std::int64_t position, std::span<std::byte> bytes) const;

  // Reads the whole current content and returns its digest; asks the system to read ahead. Throws
  // Error(kIo), and Error(kCancelled) soon after `cancelled` (may be null) has become true.
  Sha256 sha256(const std::atomic<bool>* cancelled = nullptr) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  FileStamp stamp_;
};

// The stamp that stat() gives for a path, following links; std::nullopt when stat() fails.
std::optional<FileStamp> stamp_of(const std::filesystem::path& path);

// Whether both paths name the same file, through symbolic or hard links. False when one of them
// does not exist.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace caption
