// model/internal/config.h: parsing of config.json for CLIP towers, and what several families share,
// with the class defaults of transformers (checkpoints omit keys that equal them) and every value
// validated. Source: transformers 4.57 configuration_clip.py.
//
// All parsers throw Error(kBadModel) for an impossible value and Error(kUnavailable) for a valid
// one that this build cannot run; both name the file and the key.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/text_family.h"
#include "model/vision_spec.h"

namespace caption::model {

// "gelu" (exact, by erf) or "quick_gelu" under `key` of `config`.
Activation parse_activation(const JsonObject& config, std::string_view key,
                            std::string_view fallback);
// Parses a complete tower without a projector; num_layers counts all of its layers.
VisionSpec parse_clip_vision_config(const JsonObject& config);
// The same for the root of a CLIPVisionModel or of a complete CLIP model, whose vision_config
// counts (class defaults if it has none).
VisionSpec parse_clip_config(const JsonObject& config);
// Returns how many of the tower's layers must run so that the output is hidden_states[layer];
// negative indices count from the end: -1 is the output of the last layer.
std::int64_t layers_to_run(const VisionSpec& tower, std::int64_t vision_feature_layer);

// Throws Error(kUnavailable) when `config` says that the weights are quantised.
void reject_quantised(const JsonObject& config);

// Returns eos_token_id, a number or a list; empty when the key is absent.
std::vector<std::int32_t> parse_eos_ids(const JsonObject& config);

}  // namespace caption::model
