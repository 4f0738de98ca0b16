// apps/caption-cli/preset_flags.h: --preset, and a flag for every option that has one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/machine.h"
#include "config/fields.h"
#include "config/load_preset.h"
#include "config/preset.h"

namespace CLI {
class App;
}

namespace caption::cli {

inline constexpr std::string_view kPromptKey = "generation.prompt";

struct PresetFlags {
  std::string preset = "auto";
  std::vector<config::Override> overrides;  // in the order given
  std::vector<std::string> prompts;         // every --prompt, in the order given
  bool quality = false;
  bool speed = false;
};

// Adds --preset, --quality, --speed and the flags of config/fields.h. `flags` must outlive parsing.
void add_preset_flags(CLI::App& command, PresetFlags& flags);

// The options with the values of the preset cpu, which is taken where none is named; with those of
// an empty preset where its file cannot be read.
std::vector<config::FieldHelp> default_fields();

// The preset with --quality or --speed and the other flags on top.
// Throws Error: kBadPreset, kUsage.
config::LoadedPreset load_preset(const PresetFlags& flags, const Machine& machine);

}  // namespace caption::cli
