#include "presets_command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backend/machine.h"
#include "base/display_width.h"
#include "base/error.h"
#include "base/figures.h"
#include "config/fields.h"
#include "config/generation_defaults.h"
#include "config/load_preset.h"
#include "config/preset_check.h"
#include "exit_codes.h"
#include "globals.h"
#include "option_types.h"
#include "process.h"
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

// Throws Error(kBadPreset) if there are none.
std::vector<config::PresetFile> find_presets(const config::Locations& locations) {
  std::vector<config::PresetFile> files = config::list_presets(locations.own_presets);
  if (files.empty()) {
    throw Error(ErrorCode::kBadPreset, config::describe_lack_of_presets(locations.own_presets));
  }
  return files;
}

void list_presets(const config::Locations& locations, const Context& context,
                  const Machine& machine) {
  for (const config::PresetFile& file : find_presets(locations)) {
    std::string state;
    try {
      state = availability(
          context, config::load_preset(file.path.string(), locations, machine, has_cuda_kernels()));
    } catch (const Error& error) {
      state = std::string("broken: ") + error.what();
    }
    std::cout << file.name << std::string(file.name.size() < 8 ? 8 - file.name.size() : 1, ' ')
              << printable(file.summary) << "\n        " << printable(state) << "\n";
  }
}

void show_preset(const std::string& name, const config::Locations& locations,
                 const Context& context, const Machine& machine) {
  config::LoadedPreset loaded = config::load_preset(name, locations, machine, has_cuda_kernels());
  const std::string state = loaded.path.string() + ": " + availability(context, loaded);
  std::cout << "# " << printable(state) << "\n";
  if (!loaded.note.empty()) std::cout << "# " << loaded.note << "\n";
  std::set<std::string> from_model;
  if (const auto generation = config::find_generation_config(loaded.preset, loaded.locations)) {
    from_model = config::apply_generation_config(loaded.preset, *generation);
  }
  std::cout << config::to_yaml(loaded.preset, from_model);
}

// Checks the presets named, or all that are listed, and returns the exit code.
int check_presets(std::vector<std::string> names, const config::Locations& locations,
                  const Machine& machine) {
  std::erase(names, "");  // the value of --check without one
  if (names.empty()) {
    for (const config::PresetFile& file : find_presets(locations)) {
      names.push_back(file.path.string());
    }
  }
  bool is_wrong = false;
  for (const std::string& name : names) {
    try {
      const config::PresetCheck check = config::check_preset(name, locations, machine);
      for (const std::string& one : check.contradictions) std::cout << printable(one) << "\n";
      is_wrong |= !check.contradictions.empty();
      if (check.contradictions.empty()) {
        std::cout << pad_right(check.name + " ", 8) << "as planned: " << check.subject << "\n";
      }
    } catch (const Error& error) {
      // A preset that cannot be read does not keep the others from being checked.
      if (is_of_machine(error.code())) throw;
      const bool names_it = std::string_view(error.what()).find(name) != std::string_view::npos;
      fail((names_it ? "" : name + ": ") + error.what(), kExitBadFile);
      is_wrong = true;
    }
  }
  return is_wrong ? kExitBadFile : kExitOk;
}

}  // namespace

void add_presets_command(CLI::App& root, const Globals& globals, int& exit_code) {
  struct Flags {
    std::string shown;
    bool names_only = false;
    std::vector<std::string> checked;
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
  CLI::Option* names =
      command->add_flag("--names", flags->names_only, "the names alone, one per line")
          ->excludes(show);
  CLI::Option* check =
      command
          ->add_option("--check", flags->checked,
                       "compare presets with their plans; no name: all\n"
                       "Each is planned for the card that its comment names (\"# Plan for l4\"), "
                       "without files of its model if that is known by name. A line for each "
                       "contradiction: a figure of the comment that is not the plan's, clips or "
                       "max_num_seqs that do not fit, options that exclude each other, a file "
                       "without keys. Exit code 3 if there is one.")
          ->type_name(kPresetType)
          ->expected(0, -1)
          ->excludes(show)
          ->excludes(names);
  command->footer(
      "caption-cli presets\n"
      "caption-cli presets --show cpu > mine.yaml\n"
      "caption-cli presets --check mine.yaml");
  command->callback([flags, check, &globals, &exit_code] {
    const config::Locations& locations = globals.locations;
    exit_code = kExitOk;
    if (check->count() > 0) {
      exit_code = check_presets(flags->checked, locations, detect_machine());
    } else if (flags->names_only) {
      for (const config::PresetFile& file : find_presets(locations)) std::cout << file.name << "\n";
    } else if (flags->shown.empty()) {
      list_presets(locations, Context{}, detect_machine());
    } else {
      show_preset(flags->shown, locations, Context{}, detect_machine());
    }
  });
}

}  // namespace caption::cli
