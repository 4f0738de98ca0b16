// base/mapped_file.h: a whole file, memory-mapped read-only; and small files read whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "base/error.h"
#include "base/open_file.h"
#include "base/page_guard.h"

namespace caption {

// Owns the mapping and the descriptor it was made from; movable. The bytes stay valid as long as
// the object lives, and unchanged as long as nobody writes the file: file().stamp_now() tells.
// Where the file was cut short meanwhile they read as zeros, and has_lost_pages() tells. An empty
// file gives an empty span.
class MappedFile {
 public:
  // Throws as OpenFile, and Error: kOutOfMemory (no address space or memory left), kIo.
  explicit MappedFile(const std::filesystem::path& path);
  explicit MappedFile(OpenFile file);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {begin_, size_bytes_}; }
  const std::filesystem::path& path() const { return file_.path(); }
  const OpenFile& file() const { return file_; }
  // Whether a page of the file could not be read when it was touched. Any thread.
  bool has_lost_pages() const { return guard_.has_lost_pages(); }

 private:
  OpenFile file_;
  const std::byte* begin_ = nullptr;
  std::size_t size_bytes_ = 0;
  PageGuard guard_;
};

// For bytes of a MappedFile that will not be read soon: whole pages among them leave this process'
// memory, and are read from the file again when they are touched. Changes no content.
void release_pages(std::span<const std::byte> bytes);

// Reads a text file of at most `max_bytes`. Throws as OpenFile; kTooLarge when it is longer.
std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes = 64u << 20);
// The same of a file that is open already.
std::string read_text(const OpenFile& file, std::size_t max_bytes = 64u << 20);

// For an error of reading one of a model's files: a lack of memory and a fault of reading are the
// machine's and stay what they are, everything else is the model's (kBadModel), not a clip's.
ErrorCode model_file_code(ErrorCode code);

// Throws Error(kNotFound | kNotRegularFile | kUnreadable) unless `path` is a readable regular file.
// Never blocks on a FIFO.
void require_regular_file(const std::filesystem::path& path);

}  // namespace caption
