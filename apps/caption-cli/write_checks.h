// apps/caption-cli/write_checks.h: checks that a run can write its output, before it writes
// anything.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace caption::cli {

// Throws Error(kIo) when the file, or a file with one of the `suffixes` (".manifest.json")
// appended, cannot be created or opened for writing: the folder is missing or not writable, the
// name is too long, or the file is not writable. Writes nothing. A full disk and changes by other
// processes are detected only when the run writes.
void require_writable_output(const std::filesystem::path& path,
                             const std::vector<std::string>& suffixes);

// Throws Error(kIo) when `folder` is neither a writable folder nor can be created. An empty path
// means no cache and passes.
void require_usable_cache(const std::filesystem::path& folder);

}  // namespace caption::cli
