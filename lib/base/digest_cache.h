// base/digest_cache.h: SHA-256 digests of large files, kept beside the files' stamps so that 20 GB
// of weights are read once and not at every start.
//
// One small file per digest: <folder>/<SHA-256 of device, inode, size and both times>. A file that
// was written since has another stamp (base/open_file.h), so that its old digest is never found.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>

#include "base/open_file.h"
#include "base/sha256.h"

namespace caption {

// Copies share nothing but the folder. Thread-safe, also between processes.
class DigestCache {
 public:
  DigestCache() = default;  // keeps nothing
  // The folder is made when the first digest is kept; empty: keeps nothing. What cannot be read or
  // written there is no error: digests are then computed each time. With Keeping::kNo digests that
  // are there are found, and nothing is written.
  enum class Keeping { kYes, kNo };
  explicit DigestCache(std::filesystem::path folder, Keeping keeping = Keeping::kYes)
      : folder_(std::move(folder)), keeping_(keeping) {}

  // The digest of the content that the file had when it was opened: kept, or computed and kept. It
  // is not kept when a time of the file is younger than two seconds (a write within the same tick
  // of the clock would not change the stamp).
  // Throws Error(kBadModel) when the file was written since it was opened, or is while it is read;
  // otherwise as OpenFile::sha256().
  Sha256 digest_of(const OpenFile& file, const std::atomic<bool>* cancelled = nullptr) const;

  // The two halves of digest_of(). A file that does not hold a digest counts as absent.
  std::optional<Sha256> find(const FileStamp& stamp) const;
  void keep(const FileStamp& stamp, const Sha256& digest) const;

 private:
  std::filesystem::path folder_;
  Keeping keeping_ = Keeping::kYes;
};

}  // namespace caption
