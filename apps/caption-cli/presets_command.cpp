#include "presets_command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <set>
#include <string>

#include "backend/machine.h"
#include "config/generation_defaults.h"
#include "config/load_preset.h"
#include "config/resolve.h"
#include "exit_codes.h"
#include "run_obstacles.h"

namespace caption::cli {
namespace {

std::string availability(const config::LoadedPreset& loaded) {
  std::string out;
  for (const std::string& obstacle : run_obstacles(loaded)) {
    out += (out.empty() ? "does not run here: " : "; ") + obstacle;
  }
  return out.empty() ? "runs here" : out;
}

void list_presets(const Machine& machine) {
  for (const config::PresetFile& file : config::list_presets()) {
    std::string state;
    try {
      state = availability(config::load_preset(file.path.string(), machine, has_cuda_kernels()));
    } catch (const Error& error) {
      state = std::string("broken: ") + error.what();
    }
    std::cout << file.name << std::string(file.name.size() < 8 ? 8 - file.name.size() : 1, ' ')
              << file.summary << "\n        " << state << "\n";
  }
}

void show_preset(const std::string& name, const Machine& machine) {
  config::LoadedPreset loaded = config::load_preset(name, machine, has_cuda_kernels());
  std::cout << "# " << loaded.path.string() << ": " << availability(loaded) << "\n";
  if (!loaded.note.empty()) std::cout << "# " << loaded.note << "\n";
  std::set<std::string> from_model;
  if (const auto generation =
          config::find_generation_config(loaded.preset, loaded.path.parent_path())) {
    from_model = config::apply_generation_config(loaded.preset, *generation);
  }
  std::cout << config::to_yaml(loaded.preset, from_model);
}

}  // namespace

void add_presets_command(CLI::App& root, int& exit_code) {
  CLI::App* command = root.add_subcommand("presets", "List the presets, or show one whole");
  auto name = std::make_shared<std::string>();
  command->add_option("--show", *name, "the preset with every value, as a file to start from")
      ->type_name("NAME|FILE");
  command->callback([name, &exit_code] {
    const Machine machine = detect_machine();
    if (name->empty()) {
      list_presets(machine);
    } else {
      show_preset(*name, machine);
    }
    exit_code = kExitOk;
  });
}

}  // namespace caption::cli
