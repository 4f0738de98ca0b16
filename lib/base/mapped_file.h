// base/mapped_file.h: a whole file, memory-mapped read-only; and small files read whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace caption {

// Owns the mapping; movable. The bytes stay valid and unchanged as long as the object lives and
// nobody truncates the file. An empty file gives an empty span.
// Throws Error: kNotFound, kNotRegularFile (folder, FIFO, device), kUnreadable, kIo.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {begin_, size_bytes_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  void unmap();

  std::filesystem::path path_;
  const std::byte* begin_ = nullptr;
  std::size_t size_bytes_ = 0;
};

// For bytes of a MappedFile that will not be read soon: whole pages among them leave this process'
// memory, and are read from the file again when they are touched. Changes no content.
void release_pages(std::span<const std::byte> bytes);

// Reads a text file of at most `max_bytes`. Throws as MappedFile; kTooLarge when it is longer.
std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes = 64u << 20);

// Throws Error(kNotFound | kNotRegularFile | kUnreadable) unless `path` is a readable regular file.
// Never blocks on a FIFO.
void require_regular_file(const std::filesystem::path& path);

}  // namespace caption
