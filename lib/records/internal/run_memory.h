// records/internal/run_memory.h: the captions of this run, for outputs that cannot be read back.
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

// Takes captions of clips with a digest until they fill a fixed number of bytes. Later clips of the
// same content are then captioned again, to the same words. Thread-safe.
class RunMemory {
 public:
  Earlier find(const ClipIdentity& clip, const std::string& video, std::string_view prompt) const;
  void add(const Record& record);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<Hash128, std::string> lines_;  // JSON by content and prompt
  std::size_t size_bytes_ = 0;
};

// Turns the record of another file of the same content into this clip's own: replaces the names,
// and sets `copy_of` to the other file or, when that file is gone, `moved_from`.
Record under_new_name(Record record, const ClipIdentity& clip, const std::string& video);

// Whether the file that the record names is no longer there, or has other bytes now. Reads a file
// whose time alone is another one.
bool is_gone(const Record& record);

}  // namespace caption::records
