// config/resources.h: locations of the files that are installed with the program.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "config/locations.h"

namespace caption::config {

// Returns the existing folders with presets/ and samples/, found relative to the running
// executable: the installed one (../share/caption-cli), then, in a build tree, the source tree
// named by caption-cli.resources in the executable's folder. Throws Error(kOutOfMemory) or
// Error(kIo) when that file exists but cannot be read for a reason of the machine. Thread-safe.
std::vector<std::filesystem::path> resource_roots();

// The folders in which price tables are looked for (plan/price_table.h): the user's own, then
// presets/prices of the resource roots. Throws as resource_roots().
std::vector<std::filesystem::path> price_folders(const Locations& locations);

// Finds a model named in a preset: a folder relative to the preset's folder, to the folder above
// it, to the working folder or to a resource root; or a name in the local Hugging Face cache.
// Throws Error(kBadModel) listing the places searched.
std::filesystem::path find_model(std::string_view name, const Locations& locations);

}  // namespace caption::config
