// records/internal/foreign_files.h: recognises files that no run has written, which must not be
// overwritten.
#pragma once

#include <filesystem>

#include "records/manifest.h"

namespace caption::records {

bool is_empty_or_missing(const std::filesystem::path& path);

// Whether a non-empty file is the output of an earlier run: it has a manifest, or begins with a
// record or with the header of a csv. Throws as read_manifest() where a folder or the like has the
// manifest's name.
bool is_output(const std::filesystem::path& path);

// Throws Error(kUsage) for a folder, FIFO or device; a path that does not exist passes.
void refuse_special_file(const std::filesystem::path& path);

// Throws Error(kOutputConflict) for a file for which is_output() is false.
void refuse_foreign_file(const std::filesystem::path& path);

// Throws Error(kOutputConflict) if what lies under the name of the output's manifest is neither a
// manifest of a run nor empty: writing a manifest there would destroy it.
void refuse_foreign_manifest(const std::filesystem::path& output, const Manifest& manifest);

// Throws Error(kOutputConflict) where a folder, a link, a device or the output itself lies at
// `path`, a name that is derived from the output's; `use` says what would be kept there.
void require_own_file(const std::filesystem::path& path, const std::filesystem::path& output,
                      const char* use);

}  // namespace caption::records
