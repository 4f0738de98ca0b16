// config/generation_defaults.h: what a model's generation_config.json says where neither the preset
// nor a flag does.
//
// The file means what transformers 4.57 takes it to mean: where do_sample is true tokens are
// sampled, at temperature 1 unless the file names another; otherwise decoding is greedy, whatever
// temperature the file has.
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

// Calls apply_generation_config() and logs which keys were taken and which keys of the file this
// build does not have. Callers call it once the model is open, and require_consistent() afterwards,
// because the file may ask for beams.
void adopt_generation_config(Preset& preset, const model::GenerationConfig& config);

// Reads the file of the model that the preset names; of a composed model, the file of the language
// model. Returns std::nullopt when the model's folder is not here. Throws Error(kBadModel) as
// read_generation_config() does.
std::optional<model::GenerationConfig> find_generation_config(
    const Preset& preset, const std::filesystem::path& preset_folder);

}  // namespace caption::config
