#include "config/resources.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>

#include "model/caption_model.h"

namespace caption::config {
namespace {

namespace fs = std::filesystem;

// Written beside the executables of a build tree, and never installed: one line, the source tree.
constexpr const char* kSourceTreeFile = "caption-cli.resources";

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

}  // namespace

std::vector<fs::path> resource_roots() {
  std::vector<fs::path> roots;
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (error) return roots;
  const fs::path installed = executable.parent_path() / CAPTION_INSTALLED_RESOURCES;
  if (is_folder(installed)) roots.push_back(fs::weakly_canonical(installed));
  std::ifstream file(executable.parent_path() / kSourceTreeFile);
  std::string source_tree;
  if (std::getline(file, source_tree) && is_folder(source_tree)) roots.emplace_back(source_tree);
  return roots;
}

fs::path find_model(std::string_view name, const fs::path& preset_folder) {
  const fs::path given(name);
  std::vector<fs::path> candidates;
  if (!given.is_absolute()) {
    if (!preset_folder.empty()) {
      candidates.push_back(preset_folder / given);
      candidates.push_back(preset_folder / ".." / given);
    }
    candidates.push_back(given);
    for (const fs::path& root : resource_roots()) candidates.push_back(root / given);
  }
  const auto found = std::find_if(candidates.begin(), candidates.end(), is_folder);
  if (found != candidates.end()) return found->lexically_normal();
  return model::resolve_model_path(name);
}

}  // namespace caption::config
