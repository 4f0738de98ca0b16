#include "config/resources.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/paths.h"
#include "config/hub_cache.h"
#include "config/preset.h"

namespace caption::config {
namespace {

namespace fs = std::filesystem;

// A file in a build tree's folder of executables, never installed: one line, the source tree.
constexpr const char* kSourceTreeFile = "caption-cli.resources";

// Whether a model can be there: a folder, or a GGUF file.
bool is_place(const fs::path& path) {
  std::error_code error;
  return is_folder(path) || (path.extension() == ".gguf" && fs::is_regular_file(path, error));
}

// The folder of the running executable; empty if the system does not name it.
fs::path executable_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

// Returns an empty text if the file does not exist. Throws Error(kOutOfMemory) or Error(kIo) when
// the machine prevents reading it, because the location of the presets is then unknown.
std::string read_source_tree(const fs::path& path) {
  try {
    const std::string text = read_text_file(path, 1u << 16);
    return text.substr(0, text.find('\n'));
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    return {};
  }
}

// The name of the demonstration model, as of its shape (plan/known_models.h).
constexpr std::string_view kDemonstration = "demo";

}  // namespace

fs::path installed_resources() {
  const fs::path folder = executable_folder();
  return folder.empty() ? folder : (folder / CAPTION_INSTALLED_RESOURCES).lexically_normal();
}

std::vector<fs::path> resource_roots() {
  std::vector<fs::path> roots;
  const fs::path folder = executable_folder();
  if (folder.empty()) return roots;
  const fs::path installed = folder / CAPTION_INSTALLED_RESOURCES;
  std::error_code error;
  if (is_folder(installed)) roots.push_back(fs::canonical(installed, error));
  if (error) roots.back() = installed;
  const std::string source_tree = read_source_tree(folder / kSourceTreeFile);
  if (is_folder(source_tree)) roots.emplace_back(source_tree);
  return roots;
}

std::vector<fs::path> price_folders(const Locations& locations) {
  std::vector<fs::path> folders;
  if (!locations.prices.empty()) folders.push_back(locations.prices);
  if (!locations.own_presets.empty()) folders.push_back(locations.own_presets / "prices");
  for (const fs::path& root : resource_roots()) folders.push_back(root / "presets/prices");
  return folders;
}

std::optional<fs::path> find_model_place(std::string_view name, const Locations& locations) {
  const fs::path given(name);
  std::vector<fs::path> candidates;
  if (!given.is_absolute()) {
    if (const fs::path& folder = locations.preset_folder; !folder.empty()) {
      candidates.push_back(folder / given);
      candidates.push_back(folder / ".." / given);
    }
    candidates.push_back(given);
    for (const fs::path& root : resource_roots()) candidates.push_back(root / given);
    if (const fs::path& folder = locations.own_presets; !folder.empty()) {
      candidates.push_back(folder / given);
      candidates.push_back(folder / ".." / given);
    }
  }
  const auto found = std::find_if(candidates.begin(), candidates.end(), is_place);
  if (found == candidates.end()) return std::nullopt;
  return found->lexically_normal();
}

fs::path find_model(std::string_view name, const Locations& locations) {
  if (name.empty()) {
    throw Error(
        ErrorCode::kBadModel,
        "the model's name is empty; give a model's folder, a GGUF file or its name in the local "
        "Hugging Face cache");
  }
  if (std::optional<fs::path> place = find_model_place(name, locations)) return *std::move(place);
  if (name == kDemonstration) return find_model(ModelSection{}.path, locations);
  return find_in_hub_cache(name, locations.hub_caches);
}

std::string from_working_folder(const std::string& name) {
  if (!is_place(name)) return name;
  std::error_code error;
  const fs::path whole = fs::absolute(name, error);
  return error ? name : whole.lexically_normal().string();
}

fs::path find_named_model(const std::string& name, const Locations& locations) {
  return is_place(name) ? fs::path(name) : find_model(name, locations);
}

}  // namespace caption::config
