#include "presets_command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <set>
#include <string>

#include "backend/machine.h"
#include "config/fields.h"
#include "config/generation_defaults.h"
#include "config/load_preset.h"
#include "config/resolve.h"
#include "exit_codes.h"
#include "globals.h"
#include "option_types.h"
#include "run_obstacles.h"

namespace caption::cli {
namespace {

std::string availability(const Context& context, const config::LoadedPreset& loaded) {
  std::string out;
  const RunCheck check = check_run(context, loaded);
  for (const Obstacle& obstacle : check.obstacles) {
    out += (out.empty() ? "does not run here: " : "; ") + obstacle.text;
  }
  return out.empty() ? "runs here" : out;
}

void list_presets(const config::Locations& locations, const Context& context,
                  const Machine& machine) {
  for (const config::PresetFile& file : config::list_presets(locations.own_presets)) {
    std::string state;
    try {
      state = availability(
          context, config::load_preset(file.path.string(), locations, machine, has_cuda_kernels()));
    } catch (const Error& error) {
      state = std::string("broken: ") + error.what();
    }
    std::cout << file.name << std::string(file.name.size() < 8 ? 8 - file.name.size() : 1, ' ')
              << file.summary << "\n        " << state << "\n";
  }
}

void show_preset(const std::string& name, const config::Locations& locations,
                 const Context& context, const Machine& machine) {
  config::LoadedPreset loaded = config::load_preset(name, locations, machine, has_cuda_kernels());
  std::cout << "# " << loaded.path.string() << ": " << availability(context, loaded) << "\n";
  if (!loaded.note.empty()) std::cout << "# " << loaded.note << "\n";
  std::set<std::string> from_model;
  if (const auto generation = config::find_generation_config(loaded.preset, loaded.locations)) {
    from_model = config::apply_generation_config(loaded.preset, *generation);
  }
  std::cout << config::to_yaml(loaded.preset, from_model);
}

}  // namespace

void add_presets_command(CLI::App& root, const Globals& globals, int& exit_code) {
  struct Flags {
    std::string shown;
    bool names_only = false;
  };
  CLI::App* command = root.add_subcommand(
      "presets",
      "List the presets, or show one whole\n"
      "A preset is a YAML file of two levels: what the model is, how its weights are held, how it "
      "is "
      "run. Own ones are looked for in the folder CAPTION_PRESETS of the environment.");
  auto flags = std::make_shared<Flags>();
  CLI::Option* show =
      command->add_option("--show", flags->shown, "every value of one, as a file to start from")
          ->type_name(kPresetType);
  command->add_flag("--names", flags->names_only, "the names alone, one per line")->excludes(show);
  command->footer(
      "caption-cli presets\n"
      "caption-cli presets --show cpu > mine.yaml");
  command->callback([flags, &globals, &exit_code] {
    const config::Locations& locations = globals.locations;
    if (flags->names_only) {
      for (const config::PresetFile& file : config::list_presets(locations.own_presets))
        std::cout << file.name << "\n";
    } else if (flags->shown.empty()) {
      list_presets(locations, Context{}, detect_machine());
    } else {
      show_preset(flags->shown, locations, Context{}, detect_machine());
    }
    exit_code = kExitOk;
  });
}

}  // namespace caption::cli
