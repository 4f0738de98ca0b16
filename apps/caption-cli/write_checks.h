// apps/caption-cli/write_checks.h: whether a run could write where it is told to, before it writes
// anything.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace caption::cli {

// Throws Error(kIo) when the file cannot be created or opened for writing beside the files that
// `suffixes` name (".manifest.json"): a folder that is not there or takes no files, a name that is
// too long, a file that may not be written. Writes nothing; what other processes do meanwhile, and
// a full disk, are found when the run writes.
void require_writable_output(const std::filesystem::path& path,
                             const std::vector<std::string>& suffixes);

// Throws Error(kIo) when `folder` is neither a folder that takes files nor can be made. An empty
// path passes: there is no cache.
void require_usable_cache(const std::filesystem::path& folder);

}  // namespace caption::cli
