#include "config/resources.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "model/caption_model.h"

namespace caption::config {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

}  // namespace

std::vector<fs::path> resource_roots() {
  std::vector<fs::path> roots;
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const fs::path installed = executable.parent_path() / CAPTION_INSTALLED_RESOURCES;
    if (is_folder(installed)) roots.push_back(fs::weakly_canonical(installed));
  }
  if (is_folder(fs::path(CAPTION_SOURCE_ROOT) / "presets")) roots.emplace_back(CAPTION_SOURCE_ROOT);
  return roots;
}

fs::path digest_folder() {
  const auto folder_in = [](const char* variable) -> fs::path {
    const char* const value = std::getenv(variable);
    const fs::path folder = value == nullptr ? "" : value;
    return folder.is_absolute() ? folder : "";
  };
  if (const fs::path cache = folder_in("XDG_CACHE_HOME"); !cache.empty()) {
    return cache / "caption-cli/digests";
  }
  const fs::path home = folder_in("HOME");
  return home.empty() ? "" : home / ".cache/caption-cli/digests";
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
