// config/generation_defaults.h: applies a model's generation_config.json to the options that
// neither the preset nor a flag gives.
//
// The file is interpreted as by transformers 4.57: with do_sample tokens are sampled, at
// temperature 1 unless the file has another; otherwise decoding is greedy, whatever the file's
// temperature.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "config/locations.h"
#include "config/preset.h"
#include "model/generation_config.h"

namespace caption::config {

// Sets the generation keys that are in the file and not in preset.given; returns them
// ("generation.top_k"). A temperature below 0.00001, which is equivalent to greedy decoding,
// becomes 0. If min_new_tokens exceeds max_new_tokens, the one of the two that came from the file
// is adjusted.
std::set<std::string> apply_generation_config(Preset& preset,
                                              const model::GenerationConfig& config);

// Calls apply_generation_config() and logs which keys were applied and which keys of the file are
// not supported. Callers must call it after opening the model, and call require_consistent()
// afterwards, because the file may request beam search. Throws as require_token_range()
// (config/option_names.h).
void adopt_generation_config(Preset& preset, const model::GenerationConfig& config);

// Reads the file of the preset's model; for a composed model, of its language model. Returns
// std::nullopt when the model's folder is not available. Throws Error(kBadModel) as
// read_generation_config(); kOutOfMemory and kIo where the machine prevents looking for the model.
std::optional<model::GenerationConfig> find_generation_config(const Preset& preset,
                                                              const Locations& locations);

}  // namespace caption::config
