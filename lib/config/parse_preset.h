// config/parse_preset.h: reads presets and flags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/preset.h"

namespace caption::config {

// Parses a preset; missing keys keep the defaults above. `name` is the file's name for messages.
// Throws Error(kBadPreset) "name:line:column: ..." for broken YAML, aliases, nesting, unknown or
// duplicate keys, and values of a wrong type or outside their range.
Preset parse_preset(std::string_view yaml, const std::string& name);

// As parse_preset(), but missing keys keep their values in `base`.
Preset overlay_preset(Preset base, std::string_view yaml, std::string_view name);

// The value of one flag, applied on top of a preset.
struct Override {
  std::string key;
  std::string value;
  std::string source;  // for messages: "--temperature"
  // Used instead of `value` for a key that takes a list.
  std::vector<std::string> items = {};
};
// Throws Error(kUsage) "--temperature: ..." for a value that the key rejects.
void apply_override(Preset& preset, const Override& override_value);

}  // namespace caption::config
