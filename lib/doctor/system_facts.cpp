#include "doctor/system_facts.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <system_error>

namespace caption::doctor {

namespace fs = std::filesystem;

FolderFacts examine_folder(const fs::path& path) {
  FolderFacts facts{.path = path};
  if (path.empty()) return facts;
  std::error_code error;
  fs::path nearest = fs::absolute(path, error).lexically_normal();
  if (error) return facts;
  while (!fs::exists(nearest, error) && nearest != nearest.parent_path()) {
    nearest = nearest.parent_path();
  }
  facts.is_usable = fs::is_directory(nearest, error) && ::access(nearest.c_str(), W_OK | X_OK) == 0;
  const fs::space_info space = fs::space(nearest, error);
  if (!error) {
    constexpr std::uintmax_t kMost = std::numeric_limits<std::int64_t>::max();
    facts.free_bytes = static_cast<std::int64_t>(std::min(space.available, kMost));
  }
  return facts;
}

std::int64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) return std::atoll(line.c_str() + 13) * 1024;
  }
  return 0;
}

int count_online_cpus() { return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))); }

std::int64_t open_file_limit() {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNone;
  return static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, kNone));
}

}  // namespace caption::doctor
