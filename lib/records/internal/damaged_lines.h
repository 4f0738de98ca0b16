// records/internal/damaged_lines.h: keeps the lines of an output that are no records.
#pragma once

#include <filesystem>

#include "records/internal/output_file.h"
#include "records/internal/record_index.h"

namespace caption::records {

// FILE.damaged, beside the output.
std::filesystem::path damaged_path(const std::filesystem::path& output);

// Throws as require_own_file() of damaged_path().
void require_damaged_place(const std::filesystem::path& output);

// Appends the damaged lines of `file` that `index` names to damaged_path(), durably; makes no file
// where there are none. Throws as require_damaged_place() and
// OutputFile.
void keep_damaged_lines(const OutputFile& file, const RecordIndex& index);

}  // namespace caption::records
