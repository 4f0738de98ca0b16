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

// Converts the record of another file with the same content into a record of this clip: replaces
// the names, and sets `copy_of` to the file whose caption it is (of a copy the one that it was
// copied from, unless that is this clip or has other content by now) or, when the record's file no
// longer exists, `moved_from`. Reads the file that a copy names.
Record under_new_name(Record record, const ClipIdentity& clip, const std::string& video);

// Whether the file that the record names no longer exists or has other content. Reads the file if
// only its time differs.
bool is_gone(const Record& record);

}  // namespace caption::records
