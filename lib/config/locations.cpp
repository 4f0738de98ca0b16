#include "config/locations.h"

#include <algorithm>

namespace caption::config {
namespace {

namespace fs = std::filesystem;

// Returns an empty path for a variable that is not set.
fs::path path_in(const EnvironmentVariable& variable, const char* name) {
  const char* const value = variable(name);
  return value == nullptr ? "" : value;
}

// The path without "." and "..", and without a slash at its end.
fs::path without_slash(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

// The program's own cache; an empty path if the environment names no absolute one.
fs::path find_own_cache(const EnvironmentVariable& variable) {
  if (const fs::path cache = path_in(variable, "XDG_CACHE_HOME"); cache.is_absolute()) {
    return cache / "caption-cli";
  }
  const fs::path home = path_in(variable, "HOME");
  return home.is_absolute() ? home / ".cache/caption-cli" : fs::path();
}

}  // namespace

Locations find_locations(const EnvironmentVariable& variable) {
  Locations locations;
  locations.own_presets = path_in(variable, "CAPTION_PRESETS");
  struct Cache {
    const char* variable;
    const char* folder;  // below the variable's value
  };
  constexpr Cache kCaches[] = {{"HF_HUB_CACHE", ""},
                               {"HF_HOME", "hub"},
                               {"XDG_CACHE_HOME", "huggingface/hub"},
                               {"HOME", ".cache/huggingface/hub"}};
  for (const Cache& cache : kCaches) {
    const fs::path value = path_in(variable, cache.variable);
    if (value.empty()) continue;
    const fs::path folder = *cache.folder == '\0' ? value : value / cache.folder;
    std::vector<fs::path>& caches = locations.hub_caches;
    // Two variables name one folder where XDG_CACHE_HOME is ~/.cache.
    const bool is_there = std::any_of(caches.begin(), caches.end(), [&](const fs::path& other) {
      return without_slash(other) == without_slash(folder);
    });
    if (!is_there) caches.push_back(folder);
  }
  if (const fs::path folder = path_in(variable, "TMPDIR"); !folder.empty()) {
    locations.temporary = folder;
  }
  if (const fs::path own_cache = find_own_cache(variable); !own_cache.empty()) {
    locations.digests = own_cache / "digests";
    locations.prices = own_cache / "prices";
    locations.rates = own_cache / "rates";
    locations.self_drafts = own_cache / "self-drafts";
  }
  return locations;
}

}  // namespace caption::config
