// records/internal/file_system.h: the few system calls durable files need.
#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace caption::records {

// Owns a file descriptor; -1 is none.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return number_; }

 private:
  int number_;
};

// The code of an output that cannot be opened, read or written, whatever a clip would have:
// kOutOfMemory for want of memory or descriptors, else kIo.
ErrorCode output_error_code(int error_number);

// Writes all of `text`, in one write() unless the system takes less; waits for the reader of a pipe
// that is full, also where the descriptor does not wait by itself. 0, or errno.
int write_whole(int descriptor, std::string_view text);

// The file itself where `path` is a link to it: replacing the link would split the two.
std::filesystem::path real_path(const std::filesystem::path& path);

// Makes a rename in `folder` survive a power cut. Throws Error as output_error_code().
void sync_folder(const std::filesystem::path& folder);

// Replaces `path` whole or not at all: temporary file beside it, fsync, rename, fsync of the
// folder. Throws Error as output_error_code(); the old file then stands as it was, unless only the
// last step failed.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace caption::records
