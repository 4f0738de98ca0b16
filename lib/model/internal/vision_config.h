// model/internal/vision_config.h: parsing of config.json for vision towers of fixed-size frames,
// with the class defaults of transformers (checkpoints omit keys that equal them) and every value
// validated. Sources: transformers 4.57 configuration_clip.py, configuration_siglip.py.
//
// All parsers throw Error(kBadModel) for an impossible value and Error(kUnavailable) for a valid
// one that this build cannot run; both name the file and the key.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/vision_spec.h"

namespace caption::model {

// The activation under `key` of `config`: "gelu" (exact, by erf), "gelu_pytorch_tanh" or "gelu_new"
// (both by tanh), "quick_gelu", "silu" or "swish", or "relu".
Activation parse_activation(const JsonObject& config, std::string_view key,
                            std::string_view fallback);

// These parse a complete tower without a projector; num_layers counts all of its layers.
VisionSpec parse_clip_vision_config(const JsonObject& config);
VisionSpec parse_siglip_vision_config(const JsonObject& config);
// The same by the model_type of `config`, which is `default_type` when there is none.
VisionSpec parse_vision_config(const JsonObject& config, std::string_view default_type);
// The same for the root of a vision model or of a complete CLIP or SigLIP model, whose
// vision_config counts (class defaults if it has none).
VisionSpec parse_tower_config(const JsonObject& config);
// Whether parse_tower_config() can parse a configuration with this model_type.
bool is_tower_type(std::string_view model_type);
std::string tower_type_names();  // "clip, clip_vision_model, ..."

// Checks what all towers share: RGB, heads that divide the width, a patch that is no larger than
// the frame. Sets num_positions.
void finish_tower(const JsonObject& config, VisionSpec& tower);

// Sets the layers of a complete tower that run, so that its output is hidden_states[layer] of all
// `layers`, side by side; negative indices count from the end: -1 is the output of the last layer.
// Throws Error(kBadModel) for a hidden state that the tower has not; messages begin with `where`,
// the file or folder that chooses the layers.
void set_feature_layers(VisionSpec& tower, const std::vector<std::int64_t>& layers,
                        const std::string& where);

// Returns vision_feature_layer, a number or a list, or `fallback` when it is absent.
std::vector<std::int64_t> parse_feature_layers(const JsonObject& config, std::int64_t fallback);

// Checks that vision_feature_select_strategy, which is `fallback` when it is absent, fits a tower:
// "default" leaves out the class token, and "full" nothing. Throws Error(kUnavailable) when a class
// token would stay among the patches, Error(kBadModel) when a patch would be left out in its place.
void check_feature_strategy(const JsonObject& config, const VisionSpec& tower,
                            std::string_view fallback);

}  // namespace caption::model
