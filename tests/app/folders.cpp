#include "tests/app/folders.h"

#include <algorithm>

#include "tests/app/process.h"

namespace caption::test {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void fill(const fs::path& folder, const Names& names) {
  const std::vector<fs::path> samples = small_videos();
  for (std::size_t i = 0; i < names.size(); ++i) {
    fs::create_directories((folder / names[i]).parent_path());
    fs::create_symlink(samples[i], folder / names[i]);
  }
  write_text(folder / "0 notes", "no film");
}

std::string list(const fs::path& folder) {
  Names lines;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    lines.push_back(entry.path().string() +
                    (entry.is_regular_file() ? " " + std::to_string(entry.file_size()) : ""));
  }
  std::sort(lines.begin(), lines.end());
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

Files files_of(const fs::path& folder) {
  Files files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_text(entry.path());
  }
  return files;
}

}  // namespace caption::test
