// records/internal/read_records.h: reads the records of an output file into an index.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "records/internal/record_index.h"
#include "records/record.h"

namespace caption::records {

// What a file of records is, on which depends what becomes of a line that is no record.
enum class FileUse {
  kOutput,    // a run continues it; --overwrite starts it anew
  kBeside,    // it lies beside an output: FILE.new, FILE.replaced
  kReplaced,  // an output whose place FILE.new is about to take
};

struct RecordsFile {
  std::filesystem::path path;
  FileUse use = FileUse::kOutput;
};

// Adds every complete line of a JSONL output to `index`, marks whether its settings are in
// `accepted` (accepted_keys()), and calls visit(record) for it; blank lines and a byte order mark
// before the first line are skipped. A last line that is a record and lacks its end of line alone,
// as some editors leave it, counts as complete, with that end; so does, in an output, one that is
// not the beginning of a record, as an interrupted write leaves it. Returns the number of bytes of
// all complete lines, one more than the file has if the end of the last one is missing; any bytes
// after them are a torn line. A line of an output that is not a record is entered as damaged, with
// a warning that has its number, where other lines are records or it begins as one; in an output
// that is about to be replaced, any such line, without a warning. Throws Error(kOutputConflict)
// naming any other line that is not a record, or a csv of captions, and as MappedFile.
std::int64_t read_records(const RecordsFile& file, const std::set<std::string>& accepted,
                          RecordIndex& index, const std::function<void(const Record&)>& visit = {});

// Returns Record::video of a line of which only the beginning was written; an empty text when it is
// not whole there.
std::string video_of_torn_line(std::string_view begin);

}  // namespace caption::records
