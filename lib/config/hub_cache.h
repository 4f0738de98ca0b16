// config/hub_cache.h: finds the folder of a model in the local Hugging Face cache by its name.
#pragma once

#include <filesystem>
#include <string_view>

namespace caption::config {

// Returns the snapshot folder of a name such as "llava-hf/LLaVA-NeXT-Video-7B-hf" in the local
// Hugging Face cache ($HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub,
// ~/.cache/huggingface/hub); an existing folder is returned unchanged. Throws Error(kBadModel) that
// names the places searched and how to get the model.
std::filesystem::path find_in_hub_cache(std::string_view name_or_folder);

}  // namespace caption::config
