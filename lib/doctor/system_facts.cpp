#include "doctor/system_facts.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <system_error>

namespace caption::doctor {

namespace fs = std::filesystem;

namespace {

// Permissions tell little of file systems that are read-only, or that make files by themselves
// (/proc).
bool can_make_file(const fs::path& folder) {
  std::string name = (folder / ".caption-cli-XXXXXX").string();
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) return false;
  ::close(file);
  return ::unlink(name.c_str()) == 0;
}

bool can_make_folder(const fs::path& folder) {
  return ::mkdir(folder.c_str(), 0700) == 0 && ::rmdir(folder.c_str()) == 0;
}

}  // namespace

FolderFacts examine_folder(const fs::path& path) {
  FolderFacts facts{.path = path};
  if (path.empty()) return facts;
  std::error_code error;
  fs::path nearest = fs::absolute(path, error).lexically_normal();
  if (error) return facts;
  fs::path missing;  // the first folder that is to be made
  while (!fs::exists(nearest, error) && nearest != nearest.parent_path()) {
    missing = nearest;
    nearest = nearest.parent_path();
  }
  if (fs::is_directory(nearest, error)) {
    facts.is_usable = missing.empty() ? can_make_file(nearest) : can_make_folder(missing);
  }
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
