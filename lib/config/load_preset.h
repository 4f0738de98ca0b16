// config/load_preset.h: finds presets by name or file and resolves `auto`.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "backend/machine.h"
#include "config/locations.h"
#include "config/preset.h"

namespace caption::config {

struct PresetFile {
  std::string name;  // "cpu"
  std::filesystem::path path;
  std::string summary;  // first line of the file's opening comment
};

// Lists Locations::own_presets, then presets/ of every resource root; the first of two presets with
// one name is used. Sorted by name. The files are not parsed.
std::vector<PresetFile> list_presets(const std::filesystem::path& own_presets);

// Warns where CAPTION_PRESETS names no folder that can be read.
void warn_of_missing_presets(const std::filesystem::path& own_presets);

// "no presets are found: ...", with the places of list_presets() and what to do.
std::string describe_lack_of_presets(const std::filesystem::path& own_presets);

struct LoadedPreset {
  Preset preset;
  std::filesystem::path path;  // the file that was named
  std::string note;            // reason for the choice of `auto`; empty otherwise
  Locations locations;         // as given, with the folder of the file that was named
  std::string text;            // content of the file that was named
};

// `name_or_path` is a name of list_presets() or a file. A preset whose device.type is `auto` is
// applied on top of the preset for this machine. Throws Error(kBadPreset) as parse_preset(), and
// for an unknown name (listing the known ones).
LoadedPreset load_preset(std::string_view name_or_path, const Locations& locations,
                         const Machine& machine, bool has_cuda_kernels);

// Returns "cpu" without CUDA kernels or a CUDA device; otherwise the preset with the largest memory
// requirement that the first device meets.
std::string choose_preset(const Machine& machine, bool has_cuda_kernels);

}  // namespace caption::config
