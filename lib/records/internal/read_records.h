// records/internal/read_records.h: what an output file holds, line by line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "records/internal/record_index.h"
#include "records/record.h"

namespace caption::records {

// Takes every whole line of a JSONL output into `index`, with its settings compared to `accepted`
// (accepted_keys()), and calls visit(record) for each; blank lines are passed over. Returns the
// bytes of all whole lines: what follows them is torn.
// Throws Error(kOutputConflict) naming a line that is no record; as MappedFile.
std::int64_t read_records(const std::filesystem::path& path, const std::set<std::string>& accepted,
                          RecordIndex& index, const std::function<void(const Record&)>& visit = {});

}  // namespace caption::records
