// records/internal/run_memory.h: captions of this run, for outputs that cannot be read back.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/hash.h"
#include "records/record.h"
#include "records/sink.h"

namespace caption::records {

// Stores captions of clips with a digest up to a fixed number of bytes. Beyond that, later clips of
// the same content are captioned again, with the same result. Thread-safe.
class RunMemory {
 public:
  Earlier find(const ClipIdentity& clip, const std::string& video, std::string_view caption) const;
  void add(const Record& record);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<Hash128, std::string> lines_;  // JSON lines by the key of content and prompt
  std::size_t size_bytes_ = 0;
};

}  // namespace caption::records
