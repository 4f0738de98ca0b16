#include "config/load_preset.h"

#include <algorithm>
#include <array>
#include <map>
#include <system_error>

#include "base/error.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/nearest.h"
#include "base/open_file.h"
#include "base/paths.h"
#include "base/units.h"
#include "config/adapters.h"
#include "config/examples.h"
#include "config/parse_preset.h"
#include "config/resources.h"

namespace caption::config {
namespace {

namespace fs = std::filesystem;

// The suffixes of presets; of two files of a folder that differ only in it, the first counts.
constexpr std::array<std::string_view, 2> kSuffixes = {".yaml", ".yml"};

struct CudaPreset {
  const char* name;
  std::int64_t min_memory_bytes;
};
// Lower limits of the reported memory, which is a few per cent less than a card's nominal size.
constexpr std::array kCudaPresets = {CudaPreset{"h100", 70LL << 30}, CudaPreset{"a100", 35LL << 30},
                                     CudaPreset{"l4", 20LL << 30}, CudaPreset{"t4", 14LL << 30}};

std::string read_preset(const fs::path& path) {
  try {
    return read_text_input(path, 1u << 20);
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    const bool is_no_file =
        error.code() == ErrorCode::kNotFound || error.code() == ErrorCode::kNotRegularFile;
    throw Error(ErrorCode::kBadPreset,
                std::string(error.what()) +
                    (is_no_file ? "; give a preset's YAML file, or a name that `caption-cli "
                                  "presets` lists"
                                : ""));
  }
}

std::string summary_of(const fs::path& path) {
  try {
    const std::string text = read_text_file(path, 1u << 20);
    if (!text.starts_with("# ")) return {};
    return text.substr(2, text.find('\n') - 2);
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    return "(cannot be read)";
  }
}

std::vector<fs::path> preset_folders(const fs::path& own_presets) {
  std::vector<fs::path> folders;
  if (!own_presets.empty()) folders.push_back(own_presets);
  for (const fs::path& root : resource_roots()) folders.push_back(root / "presets");
  return folders;
}

bool is_preset_name(std::string_view file_name) {
  return std::any_of(kSuffixes.begin(), kSuffixes.end(),
                     [&](std::string_view suffix) { return file_name.ends_with(suffix); });
}

fs::path find_preset(std::string_view name_or_path, const fs::path& own_presets) {
  const std::vector<PresetFile> presets = list_presets(own_presets);
  std::string names;
  std::vector<std::string> known;
  for (const PresetFile& preset : presets) {
    if (preset.name == name_or_path) return preset.path;
    names += (names.empty() ? "" : ", ") + std::string(preset.name);
    known.push_back(preset.name);
  }
  const bool looks_like_path =
      name_or_path.find('/') != std::string_view::npos || is_preset_name(name_or_path);
  if (looks_like_path || is_present(name_or_path)) return fs::path(name_or_path);
  throw Error(ErrorCode::kBadPreset,
              "no preset is named \"" + std::string(name_or_path) +
                  "\" and no such file is there; " +
                  (names.empty() ? describe_lack_of_presets(own_presets) : "presets: " + names) +
                  did_you_mean(name_or_path, known));
}

// The paths in a preset are relative to its file in `folder`. Those of models and adapters are
// looked for in other places, too (config/resources.h).
void resolve_paths(Preset& preset, const fs::path& folder) {
  preset.generation.examples = resolve_example_paths(preset.generation.examples, folder);
  const auto resolve = [&](std::string& path) {
    if (!path.empty() && path != "-") path = (folder / path).string();
  };
  resolve(preset.engine.kv_cache_dir);
  for (std::string& path : preset.speculative.draft_from) resolve(path);
}

// Makes absolute the names of the models, adapters and projector that lie beside the preset itself
// (`own`) and are found elsewhere, or not at all, where another preset lies on top of it (`used`).
void resolve_models(Preset& preset, const Locations& own, const Locations& used) {
  const auto resolved = [&](const std::string& name) {
    const auto place = name.empty() ? std::nullopt : find_model_place(name, own);
    if (!place.has_value()) return name;
    const fs::path whole = absolute_path(*place);
    const auto found = find_model_place(name, used);
    return found.has_value() && absolute_path(*found) == whole ? name : whole.string();
  };
  ModelSection& model = preset.model;
  for (std::string* const name :
       {&model.path, &model.vision, &model.llm, &preset.speculative.draft_model}) {
    *name = resolved(*name);
  }
  for (std::string& text : model.adapter) {
    const model::AdapterSource adapter = parse_adapter(text);
    const std::string folder = resolved(adapter.folder.string());
    text = adapter.name.empty() ? folder : adapter.name + "=" + folder;
  }
  const fs::path projector = absolute_path(own.preset_folder / model.projector);
  std::error_code ignored;
  const bool is_beside = !model.projector.empty() && fs::exists(projector, ignored);
  if (is_beside && own.preset_folder != used.preset_folder) model.projector = projector.string();
}

// The preset that is chosen for this machine, with names that are found where `used` has the folder
// of another preset.
Preset read_chosen_preset(const fs::path& path, const Locations& used) {
  Preset preset = parse_preset(read_preset(path), path.string());
  resolve_paths(preset, absolute_path(path).parent_path());
  Locations own = used;
  own.preset_folder = path.parent_path();
  resolve_models(preset, own, used);
  return preset;
}

}  // namespace

std::vector<PresetFile> list_presets(const fs::path& own_presets) {
  std::map<std::string, fs::path> found;
  for (const fs::path& folder : preset_folders(own_presets)) {
    std::error_code error;
    const std::vector<fs::directory_entry> entries = list_folder(folder, error);
    const bool is_absent =
        error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
    if (error && !is_absent) {
      throw Error(error_code_of_errno(error.value()),
                  folder.string() + ": cannot list the presets: " + describe_errno(error.value()));
    }
    std::vector<fs::path> in_folder;
    for (const fs::directory_entry& entry : entries) {
      if (is_preset_name(entry.path().filename().string())) in_folder.push_back(entry.path());
    }
    std::sort(in_folder.begin(), in_folder.end());
    for (const fs::path& path : in_folder) {
      // Does not replace an earlier preset of the same name.
      found.emplace(path.stem().string(), path);
    }
  }
  std::vector<PresetFile> presets;
  for (const auto& [name, path] : found) {
    presets.push_back({.name = name, .path = path, .summary = summary_of(path)});
  }
  return presets;
}

void warn_of_missing_presets(const fs::path& own_presets) {
  std::error_code error;
  if (own_presets.empty() || fs::is_directory(own_presets, error)) return;
  log_warning("config", "CAPTION_PRESETS names " + own_presets.string() +
                            ", which is no folder that can be read; it is not used");
}

std::string describe_lack_of_presets(const fs::path& own_presets) {
  const fs::path installed = installed_resources();
  return "no presets are found: " +
         (installed.empty() ? "" : "none is in " + (installed / "presets").string() + ", and ") +
         (own_presets.empty()
              ? "CAPTION_PRESETS, which may name their folder, is not set"
              : "none in " + own_presets.string() + ", which CAPTION_PRESETS names") +
         "; " + std::string(kInstallationAdvice);
}

std::string choose_preset(const Machine& machine, bool has_cuda_kernels) {
  if (!has_cuda_kernels || machine.cuda_devices.empty()) return "cpu";
  const std::int64_t memory_bytes = machine.cuda_devices.front().memory_bytes;
  const auto fitting = std::find_if(
      kCudaPresets.begin(), kCudaPresets.end(),
      [&](const CudaPreset& preset) { return memory_bytes >= preset.min_memory_bytes; });
  return fitting == kCudaPresets.end() ? "cpu" : fitting->name;
}

LoadedPreset load_preset(std::string_view name_or_path, const Locations& locations,
                         const Machine& machine, bool has_cuda_kernels) {
  const fs::path path = find_preset(name_or_path, locations.own_presets);
  Locations found = locations;
  found.preset_folder = folder_of_file(path);
  const std::string text = read_preset(path);
  const auto resolved = [&](Preset read) {
    resolve_paths(read, found.preset_folder);
    return read;
  };
  Preset preset = resolved(parse_preset(text, path.string()));
  preset.name = path.stem().string();
  if (preset.device.type != DeviceType::kAuto) {
    return {
        .preset = preset, .path = path, .note = {}, .locations = std::move(found), .text = text};
  }

  const std::string chosen = choose_preset(machine, has_cuda_kernels);
  const fs::path chosen_path = find_preset(chosen, locations.own_presets);
  Preset base = read_chosen_preset(chosen_path, found);
  const DeviceType type = base.device.type;
  preset = resolved(overlay_preset(base, text, path.string()));
  preset.device.type = type;
  preset.name = chosen;
  std::string why = "this build has no CUDA kernels";
  if (has_cuda_kernels) {
    why = machine.cuda_devices.empty()
              ? machine.cuda_status
              : machine.cuda_devices.front().name + " with " +
                    format_bytes(machine.cuda_devices.front().memory_bytes);
  }
  return {.preset = std::move(preset),
          .path = path,
          .note = "preset " + chosen + " chosen for this machine: " + why,
          .locations = std::move(found),
          .text = text};
}

}  // namespace caption::config
