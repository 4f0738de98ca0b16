// doctor/system_facts.h: what the operating system leaves a process.
#pragma once

#include <cstdint>
#include <filesystem>

namespace caption::doctor {

struct FolderFacts {
  std::filesystem::path path;   // empty: nothing names a folder
  bool is_usable = false;       // a folder that can be written to, or made
  std::int64_t free_bytes = 0;  // for this user, on its file system
};

// Of a folder that need not exist: then the nearest existing one above it counts. Writes nothing.
FolderFacts examine_folder(const std::filesystem::path& path);

// MemAvailable of /proc/meminfo; 0 when it cannot be read.
std::int64_t available_memory_bytes();

// CPUs of the machine, whatever part of it this process may use.
int count_online_cpus();

// How many files this process may hold open; INT64_MAX: as many as it likes.
std::int64_t open_file_limit();

}  // namespace caption::doctor
