// kv/disk_store.h: blobs in a folder, found by a 128-bit key: the disk tier of the caches.
//
// One file per blob, <folder>/<kind>/<first two hex digits>/<key>.bin: a header (magic, format
// version, kind, key, payload size, XXH3-128 of the payload), then the payload. Files are written
// under a temporary name and renamed, so several processes may share a folder. What cannot be read
// back exactly (cut, damaged, another version, a foreign file) is a miss with one warning, and is
// removed; it is never an error and never returned. What the system does not give (no descriptor or
// memory left, a read error) is a miss with one warning, and stays.
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

namespace caption::kv {

struct DiskStoreStats {
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t damaged = 0;
  std::int64_t stored = 0;
  std::int64_t evicted = 0;
  std::int64_t bytes = 0;  // in the folder now, as far as this process knows
};

// Thread-safe. Least recently used blobs are removed when a new one would pass `max_bytes`; use is
// kept across runs in the files' modification times.
class DiskStore {
 public:
  // Opens or creates the folder and lists it. `kind` is a short name of what the blobs are
  // ("pages", "vision"): [a-z0-9_]+. Throws Error(kIo | kOutOfMemory) naming the folder and the
  // system's reason when it cannot be made or listed, or the writing thread cannot start.
  DiskStore(const std::filesystem::path& folder, std::string kind, std::int64_t max_bytes);
  ~DiskStore();  // waits for what put() has queued
  DiskStore(const DiskStore&) = delete;
  DiskStore& operator=(const DiskStore&) = delete;

  // Cheap: whether a blob is known. A hit may still fail in get().
  bool contains(const Hash128& key) const;
  std::optional<std::vector<std::byte>> get(const Hash128& key);
  // Reads straight into `payload`; false (a miss) unless the blob has exactly that size.
  bool get_into(const Hash128& key, std::span<std::byte> payload);
  // Copies the payload and writes it on a thread of the store; waits only while more than a bounded
  // number of bytes is queued. A blob larger than max_bytes, or known already, is left out. What
  // the disk does not take (full, read-only), and what there is no memory to copy, is given up
  // with a warning.
  void put(const Hash128& key, std::span<const std::byte> payload);
  // Waits until everything put so far is on disk or given up.
  void flush();

  DiskStoreStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace caption::kv
