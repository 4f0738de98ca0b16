// base/temporary_file.h: a file without a name for what does not fit the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/file_descriptor.h"

namespace caption {

// Owns an open file that has no name, so that its blocks are free when the process ends, however it
// ends. Movable. Reads and writes of different ranges may run on several threads.
class TemporaryFile {
 public:
  // On the file system of `folder`. Throws Error as output_error_code(), with the reason.
  explicit TemporaryFile(const std::filesystem::path& folder);

  // Allocates the first `bytes` bytes of the file, whose size stays as it is, so that writes to
  // them find space. Throws Error as output_error_code(). Does nothing on a file system that
  // cannot.
  void reserve(std::int64_t bytes) const;
  // Throws Error as output_error_code(), for example when no space is left.
  void write_at(std::int64_t position, std::span<const std::byte> bytes) const;
  // Reads all of `bytes`. Throws Error(kIo), also for bytes behind the end of the file.
  void read_at(std::int64_t position, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path folder_;
  FileDescriptor file_;
};

}  // namespace caption
