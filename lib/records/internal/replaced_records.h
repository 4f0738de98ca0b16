// records/internal/replaced_records.h: keeps captions of videos whose path another video has taken.
//
// A video that was moved is recognised by its content when a run finds it under its new name. Until
// then its record is not live, and compaction would drop its only caption. Such lines are moved to
// "<output>.replaced", a JSONL file that only resuming runs read. The lock on the output guards it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "records/internal/output_file.h"
#include "records/internal/record_index.h"
#include "records/record.h"

namespace caption::records {

// Not thread-safe.
class ReplacedRecords {
 public:
  // Reads the records of earlier runs; `accepted` and `visit` as for read_records(). Throws as
  // read_records() and require_own_file().
  ReplacedRecords(const std::filesystem::path& output, const std::set<std::string>& accepted,
                  const std::function<void(const Record&)>& visit = {});

  // Returns an accepted caption of the clip's content that needs no retry, under its old name.
  // Throws Error(kIo).
  std::optional<Record> find(const ClipKeys& clip, const std::vector<Status>& retried) const;

  // Must be called before `file`, whose lines `live` describes, is compacted. Adds the captions
  // that compaction would lose and drops those that are live again. The file is replaced
  // atomically, or removed when no record is left. Throws Error as OutputFile.
  void update(const OutputFile& file, const RecordIndex& live);

 private:
  std::filesystem::path path_;
  RecordIndex index_;
};

// Removes the file of an output that starts anew, unless it contains no records. Throws Error(kIo).
void remove_replaced_records(const std::filesystem::path& output);

}  // namespace caption::records
