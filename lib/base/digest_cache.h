// base/digest_cache.h: a folder of SHA-256 digests of large files, so that 20 GB of weights are
// read once and not at every start.
//
// The folder has one small file per digest: <folder>/<SHA-256 of device, inode, size and both
// times>. A file that was written since has another stamp (base/open_file.h), so its old digest is
// not found.
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/open_file.h"
#include "base/sha256.h"

namespace caption {

// Copies share only the folder and what cancels them. Thread-safe, also between processes.
class DigestCache {
 public:
  DigestCache() = default;  // stores nothing and finds nothing
  // The folder is created when the first digest is stored; with an empty path the cache stores and
  // finds nothing. A failure to read or write there is no error: the digest is then computed each
  // time. With Keeping::kNo stored digests are found, but none is written.
  enum class Keeping { kYes, kNo };
  explicit DigestCache(std::filesystem::path folder, Keeping keeping = Keeping::kYes)
      : folder_(std::move(folder)), keeping_(keeping) {}

  // From then on digest_of() ends soon after `cancelled` (may be null) has become true.
  void set_cancelled(const std::atomic<bool>* cancelled) { cancelled_ = cancelled; }

  // Returns the digest of the content that the file had when it was opened: the stored one, or a
  // computed one, which is then stored. It is not stored when the file changed less than two
  // seconds ago, because a write within the same tick of the file system's clock would not change
  // the stamp.
  // Throws Error(kBadModel) when the file was written since it was opened, or while it was read;
  // otherwise as OpenFile::sha256().
  Sha256 digest_of(const OpenFile& file) const;

  // The lookup and the store of digest_of(). find() treats a file that does not hold a digest as
  // absent.
  std::optional<Sha256> find(const FileStamp& stamp) const;
  void keep(const FileStamp& stamp, const Sha256& digest) const;

 private:
  std::filesystem::path folder_;
  Keeping keeping_ = Keeping::kYes;
  const std::atomic<bool>* cancelled_ = nullptr;
};

}  // namespace caption
