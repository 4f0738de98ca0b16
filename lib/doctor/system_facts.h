// doctor/system_facts.h: resources that the operating system grants to this process.
#pragma once

#include <cstdint>
#include <filesystem>

namespace caption::doctor {

struct FolderFacts {
  std::filesystem::path path;   // empty: no folder is configured, or it was removed
  bool is_usable = false;       // a file was made in the folder, or its first missing folder was
  std::int64_t free_bytes = 0;  // available to this user on its file system
};

// Examines a folder, or its nearest existing ancestor when it does not exist. Tries what a run
// does there: it makes a file, or the first folder that is missing, and removes it at once.
FolderFacts examine_folder(const std::filesystem::path& path);

// MemAvailable of /proc/meminfo in bytes; 0 when it cannot be read.
std::int64_t available_memory_bytes();

// Number of online CPUs of the machine, including those that this process may not use.
int count_online_cpus();

// Limit of open files of this process (RLIMIT_NOFILE); INT64_MAX when there is none.
std::int64_t open_file_limit();

}  // namespace caption::doctor
