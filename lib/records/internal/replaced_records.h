// records/internal/replaced_records.h: captions of films whose place in the output another film
// has taken.
//
// A film that was moved away is known by its content as soon as a run meets it under its new name.
// Until then no file of its content has a live record, and compaction would drop its only caption:
// such lines move to "<output>.replaced", a JSONL file that only resuming runs read. The lock on
// the output guards it.
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

// Only one thread at a time may use it.
class ReplacedRecords {
 public:
  // Reads what earlier runs left; `accepted` and `visit` as for read_records(). Throws as
  // read_records.
  ReplacedRecords(const std::filesystem::path& output, const std::set<std::string>& accepted,
                  const std::function<void(const Record&)>& visit = {});

  // The caption of the clip's content that was accepted and needs no retry, under its old name.
  // Throws Error(kIo).
  std::optional<Record> find(const ClipKeys& clip, const std::vector<Status>& retried) const;

  // To be called before `file`, whose lines `live` describes, is compacted: takes the captions that
  // compaction would lose, and lets go of those that are live again. The file is replaced whole, or
  // removed when nothing is left. Throws Error as OutputFile.
  void update(const OutputFile& file, const RecordIndex& live);

 private:
  std::filesystem::path path_;
  RecordIndex index_;
};

// Removes the file of an output that starts anew, unless it is no file of records. Throws
// Error(kIo).
void remove_replaced_records(const std::filesystem::path& output);

}  // namespace caption::records
