// config/resources.h: locations of the files that are installed with the program.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/locations.h"

namespace caption::config {

// What to do where they are missing, as the end of a sentence.
inline constexpr std::string_view kInstallationAdvice =
    "apt-get install --reinstall caption-cli, or cmake --install of the build folder, puts the "
    "presets and the demonstration model beside the program";

// The folder beside the running executable in which an installation has presets/ and samples/,
// whether or not it exists; empty if the system does not name the executable. Thread-safe.
std::filesystem::path installed_resources();

// Returns the existing folders with presets/ and samples/, found relative to the running
// executable: the installed one (../share/caption-cli), then, in a build tree, the source tree
// named by caption-cli.resources in the executable's folder. Throws Error(kOutOfMemory) or
// Error(kIo) when that file exists but cannot be read for a reason of the machine. Thread-safe.
std::vector<std::filesystem::path> resource_roots();

// The folders in which price tables are looked for (plan/price_table.h): the user's own, prices
// in Locations::own_presets, then presets/prices of the resource roots. Throws as resource_roots().
std::vector<std::filesystem::path> price_folders(const Locations& locations);

// Finds a model named in a preset: a folder or GGUF file relative to the preset's folder, to the
// folder above it, to the working folder, to a resource root, to Locations::own_presets or to the
// folder above that; "demo", the demonstration model; or a name in the local Hugging Face cache.
// Throws Error(kBadModel) listing the places searched.
std::filesystem::path find_model(std::string_view name, const Locations& locations);

// find_model() without the cache: std::nullopt for a name of which no such place has a folder or a
// GGUF file.
std::optional<std::filesystem::path> find_model_place(std::string_view name,
                                                      const Locations& locations);

// Returns the absolute path of a model that a command line names relative to the working folder,
// because find_model() looks beside the preset first; any other name unchanged.
std::string from_working_folder(const std::string& name);

// Finds a model that a command line names: in the working folder, as it is written, or else as
// find_model().
std::filesystem::path find_named_model(const std::string& name, const Locations& locations);

}  // namespace caption::config
