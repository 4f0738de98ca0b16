// store/blob_store.h: blobs in a folder, found by a 128-bit key; the disk tier of the caches.
//
// One file per blob, <folder>/<kind>/<first two hex digits>/<key>.bin: a header (magic, format
// version, kind, key, payload size, XXH3-128 of the payload), then the payload. Files are written
// under a temporary name and renamed, so several processes may share a folder. A file whose content
// is not exactly what was put (cut short, damaged, of another version, foreign) is a miss with one
// warning, and is removed; it is never returned and never an error. A file that the system fails to
// read (no descriptor or memory left, no right to read it, a read error) is a miss with one
// warning, and is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"

namespace caption::store {

struct BlobStoreStats {
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t damaged = 0;
  std::int64_t stored = 0;
  std::int64_t evicted = 0;
  std::int64_t bytes = 0;  // size of the folder now, as far as this process knows
};

// Thread-safe. The least recently used blobs are removed when a new one would exceed `max_bytes`.
// The files' modification times record the last use across runs.
class BlobStore {
 public:
  // Opens or creates the folder and lists it. `kind` is a short name for the blobs' content
  // ("pages", "vision"): [a-z0-9_]+. Throws Error(kIo | kOutOfMemory) naming the folder and the
  // system's reason when it cannot be created or listed, or the writer thread cannot be started.
  BlobStore(const std::filesystem::path& folder, std::string kind, std::int64_t max_bytes);
  ~BlobStore();  // waits until everything put is written or dropped
  BlobStore(const BlobStore&) = delete;
  BlobStore& operator=(const BlobStore&) = delete;

  // Returns whether a blob is known, without reading it; get() may still fail.
  bool contains(const Hash128& key) const;
  std::optional<std::vector<std::byte>> get(const Hash128& key);
  // Reads the blob and copies it to `payload`; returns false (a miss) unless it has exactly that
  // size. A file of another size counts as damaged and is removed.
  bool get_into(const Hash128& key, std::span<std::byte> payload);
  // Copies the payload and queues it for the store's writer thread; blocks while a non-empty queue
  // would grow beyond 64 MiB. A blob that is larger than max_bytes or already known is ignored. If
  // the disk cannot take it (full, read-only), or there is no memory for the copy, the blob is
  // dropped with a warning.
  void put(const Hash128& key, std::span<const std::byte> payload);
  // Waits until everything put so far is written or dropped.
  void flush();

  BlobStoreStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::store
