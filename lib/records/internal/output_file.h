// records/internal/output_file.h: a locked append-only file that detects changes by other programs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/durable_file.h"
#include "base/file_descriptor.h"

namespace caption::records {

enum class Durability {
  kNow,  // on the disk when the call returns
  // Synced by the next kNow append or sync(), or by an append over 0.1 s after the last sync.
  kLater,
};

// Holds an exclusive lock on the file for its lifetime. Movable. Only one thread at a time may
// append.
class OutputFile {
 public:
  // Opens or creates the file. Throws Error: kOutputConflict when another run holds the lock,
  // otherwise kIo or kOutOfMemory as output_error_code().
  explicit OutputFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::int64_t size_bytes() const { return size_bytes_; }  // as written by this run

  // Appends text in one write; on failure the file is truncated to its previous size. Throws Error
  // as output_error_code() and as require_untouched().
  void append(std::string_view text, Durability durability);
  void sync();
  void truncate(std::int64_t size_bytes);
  // May be called while another thread appends. Throws Error as output_error_code().
  std::string read(std::int64_t offset, std::int64_t size_bytes) const;
  // Throws Error(kIo) when the path no longer names this file, or when the file's size is not the
  // size that was written.
  void require_untouched() const;
  // Renames the file to `target`, replacing an existing file atomically and durably. The lock is
  // kept.
  void take_place_of(const std::filesystem::path& target);

 private:
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  std::int64_t size_bytes_ = 0;
  std::int64_t synced_at_us_ = 0;
  bool is_synced_ = true;
};

}  // namespace caption::records
