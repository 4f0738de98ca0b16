// apps/caption-cli/preset_flags.h: --preset and the flags of all preset options.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/machine.h"
#include "config/fields.h"
#include "config/load_preset.h"
#include "config/parse_preset.h"
#include "config/preset.h"

namespace CLI {
class App;
}

namespace caption::cli {

inline constexpr std::string_view kPromptKey = "generation.prompt";

struct PresetFlags {
  std::string preset = "auto";
  std::vector<config::Override> overrides;  // in the order on the command line
  std::vector<std::string> prompts;         // every --prompt, in the order on the command line
  std::string examples_file;                // --examples
  bool quality = false;
  bool speed = false;
};

// Adds --preset, --quality, --speed and the flags of config/fields.h. `flags` must outlive parsing.
void add_preset_flags(CLI::App& command, PresetFlags& flags);

// What the help says of the defaults, and what it says where the preset cpu cannot be read.
inline constexpr std::string_view kDefaultsOfCpu = "defaults below are those of cpu";
inline constexpr std::string_view kDefaultsOfNone =
    "no preset cpu can be read, and defaults below are those of an empty one";

struct DefaultFields {
  std::vector<config::FieldHelp> fields;
  bool is_cpu = false;
};
// Returns the options with the values of the preset cpu, which `auto` selects without a GPU, or of
// an empty preset if its file cannot be read.
DefaultFields default_fields();

// Loads the preset and applies --quality or --speed and the other flags.
// Throws Error: kBadPreset, kUsage.
config::LoadedPreset load_preset(const PresetFlags& flags, const config::Locations& locations,
                                 const Machine& machine);

// Returns the locations with which `run` finds the models that --model names beside this preset, so
// that every command finds them alike; `locations` for a preset that cannot be read.
config::Locations model_locations(const std::string& preset, const config::Locations& locations,
                                  const Machine& machine);

}  // namespace caption::cli
