// store/internal/blob_files.h: the files of a BlobStore: root/ab/abcd....bin, one per blob, ab
// being the first two digits of its key.
//
// No path leads through a link. A file is written under a temporary name and renamed, so that it is
// whole or absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "store/internal/blob.h"

namespace caption::store {

inline constexpr std::string_view kBlobSuffix = ".bin";

struct BlobFile {
  std::filesystem::file_time_type used_at;
  Hash128 key;
  std::int64_t size_bytes = 0;
};

// Why a blob could not be read. A damaged file should be removed; one that the system failed to
// read may be readable the next time. An empty text means there is no such file, or it exceeds the
// size limit.
struct BlobFault {
  std::string text;
  bool is_damage = true;
};

// Reading is thread-safe; one thread may write meanwhile.
class BlobFiles {
 public:
  BlobFiles(std::filesystem::path root, std::string kind, std::int64_t max_bytes)
      : root_(std::move(root)), kind_(std::move(kind)), max_bytes_(max_bytes) {}

  std::int64_t max_bytes() const { return max_bytes_; }
  std::filesystem::path path_of(const Hash128& key) const {
    return folder_of(key) / file_name_of(key);
  }

  // Returns the files, least recently used first; removes temporary files of killed processes.
  // Throws Error(kIo | kOutOfMemory) unless all were listed.
  std::vector<BlobFile> list() const;
  // Returns the payload, which must have `wanted_bytes` bytes if that is set, or nothing and sets
  // `fault` to the reason. Marks the file as used now.
  std::optional<std::vector<std::byte>> read(const Hash128& key,
                                             std::optional<std::size_t> wanted_bytes,
                                             BlobFault& fault) const;
  // The bytes of the blob's file, without reading it; nothing if there is none that read() would
  // read.
  std::optional<std::int64_t> find_size(const Hash128& key) const;
  // Returns why the file could not be written; empty if it was.
  std::string write(const Hash128& key, std::span<const std::byte> payload);
  void remove(const Hash128& key) const;

 private:
  std::filesystem::path folder_of(const Hash128& key) const {
    return root_ / key.hex().substr(0, 2);
  }
  static std::string file_name_of(const Hash128& key) {
    return key.hex() + std::string(kBlobSuffix);
  }
  BlobName name_of(const Hash128& key) const { return {.kind = kind_, .key = key}; }
  static void list_file(const std::filesystem::directory_entry& file, std::vector<BlobFile>& found);

  std::filesystem::path root_;
  std::string kind_;
  std::int64_t max_bytes_;
  std::uint64_t num_temporary_ = 0;
};

}  // namespace caption::store
