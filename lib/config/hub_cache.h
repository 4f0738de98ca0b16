// config/hub_cache.h: finds the folder of a model in the local Hugging Face cache by its name.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace caption::config {

// True for "org/name" in the characters that the hub allows, so that it cannot be another kind of
// path.
bool is_hub_name(std::string_view name);

// Returns the snapshot folder of a name such as "llava-hf/LLaVA-NeXT-Video-7B-hf" in the local
// Hugging Face caches `caches` (Locations::hub_caches); an existing folder or
// GGUF file is returned unchanged. If there are several snapshots, it is the one that refs/main
// names. Where that one is missing and a single other is there, this one is taken and logged.
// The short name of a known model ("llava-next-video-7b") stands for its name on the hub. Throws
// Error(kBadModel) that names the places searched, what the model needs and how to get it
// (config/download_advice.h), or lists several snapshots of which refs/main names none;
// kBadModel too for what cannot be examined or read, kOutOfMemory and kIo where the machine is why;
// kUnavailable for a name that says that this build would not run the model.
std::filesystem::path find_in_hub_cache(std::string_view name_or_folder,
                                        const std::vector<std::filesystem::path>& caches);

}  // namespace caption::config
