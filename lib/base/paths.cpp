#include "base/paths.h"

namespace caption {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

fs::path absolute_path(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  return (error ? path : whole).lexically_normal();
}

fs::path folder_of_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) ? path.parent_path() : fs::path();
}

std::vector<fs::directory_entry> list_folder(const fs::path& folder, std::error_code& error) {
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    entries.push_back(*entry);
  }
  return entries;
}

}  // namespace caption
