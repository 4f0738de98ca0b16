#include "sheet_names.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "base/paths.h"

namespace caption::cli {
namespace {

namespace fs = std::filesystem;

// Joins the last `count` components of an absolute path with '-'.
std::string join_last(fs::path path, std::size_t count) {
  std::string out = path.filename().string();
  for (std::size_t i = 1; i < count; ++i) {
    path = path.parent_path();
    if (path.filename().empty()) break;
    out = path.filename().string() + "-" + out;
  }
  return out;
}

// Number of last components that distinguish the paths. Even all of them may not, because of the
// '-'.
std::size_t count_needed(const std::set<fs::path>& paths) {
  std::size_t longest = 0;
  for (const fs::path& path : paths) {
    const auto length = static_cast<std::size_t>(std::distance(path.begin(), path.end()));
    longest = std::max(longest, length);
  }
  for (std::size_t count = 1; count < longest; ++count) {
    std::set<std::string> names;
    for (const fs::path& path : paths) names.insert(join_last(path, count));
    if (names.size() == paths.size()) return count;
  }
  return longest;
}

}  // namespace

std::vector<std::string> name_sheets(const std::vector<std::string>& paths) {
  std::map<fs::path, std::set<fs::path>> by_file_name;
  for (const std::string& path : paths) {
    const fs::path whole = absolute_path(path);
    by_file_name[whole.filename()].insert(whole);
  }
  std::map<std::string, fs::path> owners;
  std::vector<std::string> sheets;
  for (const std::string& path : paths) {
    const fs::path whole = absolute_path(path);
    const std::string name = join_last(whole, count_needed(by_file_name[whole.filename()]));
    std::string sheet = name + ".frames.png";
    for (int i = 2; owners.try_emplace(sheet, whole).first->second != whole; ++i) {
      sheet = name + "-" + std::to_string(i) + ".frames.png";
    }
    sheets.push_back(sheet);
  }
  return sheets;
}

}  // namespace caption::cli
