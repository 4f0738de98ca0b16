// config/generation_defaults.h: what a model's generation_config.json says where neither the preset
// nor a flag does.
//
// As transformers 4.57 takes it: sampling only where do_sample is true, at temperature 1 unless the
// file names another; otherwise greedy, whatever its temperature.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "config/preset.h"
#include "model/generation_config.h"

namespace caption::config {

// Sets the generation keys that are not in preset.given and that the file has; returns them
// ("generation.top_k"). A temperature below 0.00001, with which nothing else can be drawn, becomes
// 0; where min_new_tokens exceeds max_new_tokens, the one from the file gives way.
std::set<std::string> apply_generation_config(Preset& preset,
                                              const model::GenerationConfig& config);

// The same, and says in the log what was taken, and what the file asks for in vain. To be called
// once the model is open; require_consistent() must follow, because beams may be new.
void adopt_generation_config(Preset& preset, const model::GenerationConfig& config);

// Of the model that the preset names (of a composed one, the language model); std::nullopt when its
// folder is not here. Throws Error(kBadModel) as read_generation_config().
std::optional<model::GenerationConfig> find_generation_config(
    const Preset& preset, const std::filesystem::path& preset_folder);

}  // namespace caption::config
