#include "backend/internal/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace caption::internal {
namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Returns the file's words; none when it cannot be read.
std::vector<std::string> read_words(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; file >> word;) words.push_back(word);
  return words;
}

std::optional<std::int64_t> read_integer(const fs::path& path) {
  const std::vector<std::string> words = read_words(path);
  return words.empty() ? std::nullopt : parse_integer(words.front());
}

template <class T>
void tighten(std::optional<T>& limit, T value) {
  limit = limit ? std::min(*limit, value) : value;
}

void tighten_cpus(CgroupLimits& limits, std::optional<std::int64_t> quota_us,
                  std::optional<std::int64_t> period_us) {
  // v1 writes -1 for "no quota", v2 writes "max", which is no integer.
  if (quota_us && *quota_us > 0 && period_us && *period_us > 0) {
    tighten(limits.num_cpus, static_cast<double>(*quota_us) / static_cast<double>(*period_us));
  }
}

void apply_folder(CgroupLimits& limits, const fs::path& folder) {
  const std::vector<std::string> cpu_max = read_words(folder / "cpu.max");
  if (cpu_max.size() == 2) {
    tighten_cpus(limits, parse_integer(cpu_max[0]), parse_integer(cpu_max[1]));
  }
  tighten_cpus(limits, read_integer(folder / "cpu.cfs_quota_us"),
               read_integer(folder / "cpu.cfs_period_us"));
  for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
    const std::optional<std::int64_t> bytes = read_integer(folder / name);
    if (bytes && *bytes > 0) tighten(limits.memory_bytes, *bytes);
  }
}

// `group` is a path inside `mount`. In a container it may be a path of the host that does not exist
// here; the folders that do exist, at least the mount, still apply.
void apply_hierarchy(CgroupLimits& limits, const fs::path& mount, const fs::path& group) {
  for (fs::path relative = group.relative_path(); !relative.empty();
       relative = relative.parent_path()) {
    apply_folder(limits, mount / relative);
  }
  apply_folder(limits, mount);
}

}  // namespace

CgroupLimits read_cgroup_limits(const fs::path& mount, std::string_view membership) {
  CgroupLimits limits;
  std::istringstream lines{std::string(membership)};
  // A line is "id:controllers:path"; v2 has the id 0 and no controllers.
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) {
      apply_hierarchy(limits, mount, group);
    } else {
      std::istringstream names(controllers);
      for (std::string name; std::getline(names, name, ',');) {
        if (name == "cpu" || name == "memory") apply_hierarchy(limits, mount / name, group);
      }
    }
  }
  return limits;
}

}  // namespace caption::internal
