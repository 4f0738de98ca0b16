// records/internal/found_output.h: which file a run writes and which records in it it continues.
//
// Without --overwrite the run writes to its output. With --overwrite of an output that holds
// something it writes to FILE.new, which takes the output's place at the end, and goes on with what
// an interrupted --overwrite has left there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "records/existing.h"
#include "records/format.h"
#include "records/internal/read_records.h"
#include "records/internal/record_index.h"
#include "records/manifest.h"

namespace caption::records {

// FILE.new of an output.
std::filesystem::path path_beside(const std::filesystem::path& output);

struct FoundOutput {
  std::filesystem::path path;  // the file that the run writes
  FileUse use = FileUse::kOutput;
  // That of the records in the file; std::nullopt: the run does not continue it.
  std::optional<Manifest> manifest = std::nullopt;
};

// Looks at the files without changing them. Throws as the constructor of RecordFile, except that
// locks are not looked at.
FoundOutput find_output(const std::filesystem::path& output, Format format,
                        const Manifest& manifest, Existing existing, const Retry& retry);

struct ContinuedRecords {
  RecordIndex index;
  std::set<std::string> accepted;   // settings_key() of the runs whose records are valid
  std::int64_t complete_bytes = 0;  // as read_records() returns
};

// Reads the records that the run continues; std::nullopt where it starts anew, as it does if
// FILE.new holds no caption. `visit` as for read_records(). Throws as read_records().
std::optional<ContinuedRecords> read_continued(
    const FoundOutput& found, const std::function<void(const Record&)>& visit = {});

}  // namespace caption::records
