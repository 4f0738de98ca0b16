// records/internal/same_run.h: whether an output and a run belong together, by their manifests.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "records/format.h"
#include "records/manifest.h"
#include "records/record_file.h"

namespace caption::records {

// Reads the manifest of `output` and compares it; settings that the retry may change are not
// compared. Throws Error(kOutputConflict) with the differences named.
Manifest require_same_run(const std::filesystem::path& output, Format format,
                          const Manifest& manifest, const Retry& retry);

// Notes in `there` with which settings records are made again; false when that changes nothing.
bool note_retry(const Retry& retry, Manifest& there, const Manifest& now);

// settings_key() of the settings whose records count in an output with this manifest: its own, and
// those of retries.
std::set<std::string> accepted_keys(const Manifest& there);

// Throws Error(kUsage) for a folder, FIFO or device; a path that does not exist passes.
void refuse_special_file(const std::filesystem::path& path);

// Throws Error(kOutputConflict) for a file that is_output() does not know.
void refuse_foreign_file(const std::filesystem::path& path);

// Whether a file that is not empty is the output of an earlier run: it has a manifest, or begins
// with a record or the header of a csv.
bool is_output(const std::filesystem::path& path);

}  // namespace caption::records
