// weights/internal/watched_file.h: a mapped file that can tell whether it was changed since it was
// opened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/digest_cache.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/sha256.h"

namespace caption::weights {

// Returns read(), with the code of an Error replaced as model_file_code() does.
template <class Read>
auto read_model_file(Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(model_file_code(error.code()), error.what());
  }
}

// For use by one thread at a time.
class WatchedFile {
 public:
  // Throws as MappedFile, with the codes of a model's files.
  explicit WatchedFile(const std::filesystem::path& path)
      : mapped_(read_model_file([&] { return MappedFile(path); })),
        changed_ns_(mapped_.file().stamp().changed_ns) {}

  const MappedFile& mapped() const { return mapped_; }
  // The digest of the content that was opened. Throws as DigestCache::digest_of().
  const Sha256& digest(const DigestCache& digests);
  // Whether the file was written or cut short since it was opened, as
  // Checkpoint::find_changed_file() describes. Throws Error(kIo).
  bool has_changed();
  // Returns a sentence for an Error about a file that has changed.
  std::string describe_change() const;

 private:
  MappedFile mapped_;
  std::optional<Sha256> digest_;  // digest of the content that was opened
  std::int64_t changed_ns_;       // latest time of change at which that content was found
  bool is_changed_ = false;
};

}  // namespace caption::weights
