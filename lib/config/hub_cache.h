// config/hub_cache.h: finds the folder of a model in the local Hugging Face cache by its name.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace caption::config {

// Returns the snapshot folder of a name such as "llava-hf/LLaVA-NeXT-Video-7B-hf" in the local
// Hugging Face caches `caches` (Locations::hub_caches); an existing folder is returned unchanged.
// Throws Error(kBadModel) that names the places searched and how to get the model.
std::filesystem::path find_in_hub_cache(std::string_view name_or_folder,
                                        const std::vector<std::filesystem::path>& caches);

}  // namespace caption::config
