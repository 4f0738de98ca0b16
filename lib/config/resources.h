// config/resources.h: where the files that come with the program lie.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace caption::config {

// Folders that hold presets/ and samples/, found relative to the running executable: beside an
// installed one (../share/caption-cli), then, for one in a build tree, the source tree that
// caption-cli.resources in the executable's folder names. Existing ones only. Throws
// Error(kOutOfMemory) or Error(kIo) when the machine does not let that file be read. Thread-safe.
std::vector<std::filesystem::path> resource_roots();

// A model named in a preset: a folder beside the preset's file, one above it, as given or below a
// resource root; or a name in the local Hugging Face cache.
// `preset_folder` may be empty. Throws Error(kBadModel) that says where it looked.
std::filesystem::path find_model(std::string_view name, const std::filesystem::path& preset_folder);

// Where digests of weight files are kept between runs: $XDG_CACHE_HOME/caption-cli/digests, or
// ~/.cache/caption-cli/digests; empty when the environment names no absolute folder.
std::filesystem::path digest_folder();

}  // namespace caption::config
