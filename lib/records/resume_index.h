// records/resume_index.h: which captions a JSONL file already holds: of which clip, for which
// prompt.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>

#include "records/record.h"

namespace caption::records {

// Immutable once read.
class ResumeIndex {
 public:
  ResumeIndex() = default;

  // Reads the whole lines of `path`. What follows the last newline was being written when its
  // process was killed: it is left out and counted in torn_bytes(). Lines below complete_bytes()
  // must be records: throws Error(kOutputConflict) with the line's number otherwise.
  static ResumeIndex read(const std::filesystem::path& path);

  // By the record's `video`, less "./" and doubled slashes, and its prompt's name.
  bool contains(std::string_view video, std::string_view prompt = {}) const;
  std::int64_t num_finished() const { return static_cast<std::int64_t>(statuses_.size()); }
  std::int64_t num_of(Status status) const;
  std::int64_t num_failed() const { return num_of(Status::kFailed); }

  std::int64_t complete_bytes() const { return complete_bytes_; }
  std::int64_t torn_bytes() const { return torn_bytes_; }

 private:
  std::unordered_map<std::string, Status> statuses_;  // by identity
  std::int64_t complete_bytes_ = 0;
  std::int64_t torn_bytes_ = 0;
};

}  // namespace caption::records
