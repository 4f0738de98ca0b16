// config/load_preset.h: presets by name or file, and the choice that `auto` makes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "backend/machine.h"
#include "config/preset.h"

namespace caption::config {

struct PresetFile {
  std::string name;  // "cpu"
  std::filesystem::path path;
  std::string summary;  // the first line of its opening comment
};

// $CAPTION_PRESETS first, then presets/ of every resource root; of two with one name the first
// counts. Sorted by name. The files are not parsed.
std::vector<PresetFile> list_presets();

struct LoadedPreset {
  Preset preset;
  std::filesystem::path path;
  std::string note;  // why `auto` chose what it chose; empty otherwise
};

// `name_or_path`: a name of list_presets(), or a file. A preset whose device.type is `auto` becomes
// the preset of the machine, with its own keys on top.
// Throws Error(kBadPreset) as parse_preset, and for a name that is not there (the names listed).
LoadedPreset load_preset(std::string_view name_or_path, const Machine& machine,
                         bool has_cuda_kernels);

// "cpu" without CUDA kernels or device; otherwise the largest preset that the first device's memory
// holds.
std::string choose_preset(const Machine& machine, bool has_cuda_kernels);

}  // namespace caption::config
