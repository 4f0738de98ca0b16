// records/internal/output_file.h: a locked file that lines are appended to, and that notices when
// somebody else touches it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "records/internal/file_system.h"

namespace caption::records {

enum class Durability {
  kNow,    // on the disk when the call returns
  kLater,  // with the next that is durable, or after a tenth of a second of further ones
};

// Holds an exclusive lock on the file as long as it lives. Movable. Appending: one thread at a
// time.
class OutputFile {
 public:
  // Opens or creates the file. Throws Error: kOutputConflict when another run holds the lock, kIo
  // or kOutOfMemory as output_error_code().
  explicit OutputFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::int64_t size_bytes() const { return size_bytes_; }  // as far as this run knows

  // Appends text in one write; on failure no part of it stays. Throws Error(kIo), also as
  // require_untouched().
  void append(std::string_view text, Durability durability);
  void sync();
  void truncate(std::int64_t size_bytes);
  // Thread-safe beside append(). Throws Error(kIo).
  std::string read(std::int64_t offset, std::int64_t size_bytes) const;
  // Throws Error(kIo) when the path no longer names this file, or its size is not what was written.
  void require_untouched() const;
  // Renames the file to `target`, whatever has that name now. Whole or not at all, power cuts
  // included. The lock goes along.
  void take_place_of(const std::filesystem::path& target);

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  std::int64_t size_bytes_ = 0;
  std::int64_t synced_at_us_ = 0;
  bool is_synced_ = true;
};

}  // namespace caption::records
