// config/option_names.h: how messages name an option: as the user wrote it, which is a flag or a
// key of a preset's file.
#pragma once

#include <string>
#include <string_view>

#include "config/preset.h"

namespace caption::config {

// Returns the option's name: "--num-beams", or "generation.num_beams (own.yaml:3:14)" for a value
// that a preset's file gives. A value of the model's generation_config.json has the flag's name,
// which replaces it. `key` is one of config/fields.h.
std::string option_name(const Preset& preset, std::string_view key);

// Returns the option with its value as text: "--num-beams 4", or
// "generation.num_beams: 4 (own.yaml:3:14)".
std::string option_text(const Preset& preset, std::string_view key, std::string_view value);

// Throws Error(kUsage) where the least number of new tokens exceeds the most.
void require_token_range(const Preset& preset);

}  // namespace caption::config
