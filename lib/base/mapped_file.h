// base/mapped_file.h: a whole file, memory-mapped read-only; and reading small text files.
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
// the object lives, and unchanged as long as nobody writes the file: compare file().stamp_now()
// with file().stamp(). If the file is truncated meanwhile, the missing part reads as zeros and
// has_lost_pages() returns true. An empty file gives an empty span.
class MappedFile {
 public:
  // Throws as OpenFile does, and Error: kOutOfMemory (no address space or memory left), kIo.
  explicit MappedFile(const std::filesystem::path& path);
  explicit MappedFile(OpenFile file);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {begin_, size_bytes_}; }
  const std::filesystem::path& path() const { return file_.path(); }
  const OpenFile& file() const { return file_; }
  // Whether a page of the file could not be read when it was accessed. Callable from any thread.
  bool has_lost_pages() const { return guard_.has_lost_pages(); }

 private:
  OpenFile file_;
  const std::byte* begin_ = nullptr;
  std::size_t size_bytes_ = 0;
  PageGuard guard_;
};

// Reads the pages of `bytes`, a part of a MappedFile, from the disk unless they are in the page
// cache, and maps them, so that the next access needs no fault. Waits for the disk (before Linux
// 5.14 it only asks for the pages). A page that cannot be read is left to the first access. Changes
// no content; callable from any thread.
void populate_pages(std::span<const std::byte> bytes);

// Asks the system to read the pages of `bytes`, a part of a MappedFile, and none around them; does
// not wait for it.
void request_pages(std::span<const std::byte> bytes);

// Releases the whole pages inside `bytes`, a part of a MappedFile that will not be read soon, from
// this process's memory; they are read from the file again on the next access. Does not change the
// content.
void release_pages(std::span<const std::byte> bytes);

// Reads a text file of at most `max_bytes`. Throws as OpenFile does; Error(kTooLarge) when the file
// is longer; Error(kIo).
std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes = 64u << 20);
// Returns the same, and what is written into a FIFO until its last writer closes it, for input that
// a shell makes with <(command). Waits for a FIFO's first writer.
std::string read_text_input(const std::filesystem::path& path, std::size_t max_bytes = 64u << 20);
// The same as read_text_file() for a file that is already open.
std::string read_text(const OpenFile& file, std::size_t max_bytes = 64u << 20);

// The code to report when reading one of a model's files failed with `code`: kOutOfMemory and kIo
// are errors of the machine and stay; every other code becomes kBadModel, so that it is not
// attributed to a clip.
ErrorCode model_file_code(ErrorCode code);
// Returns read_text_file() of one of a model's files; throws Error with model_file_code().
std::string read_model_file(const std::filesystem::path& path);

// Throws as OpenFile does, for example kNotFound, kNotRegularFile or kUnreadable, unless `path` is
// a readable regular file. Never blocks on a FIFO.
void require_regular_file(const std::filesystem::path& path);

}  // namespace caption
