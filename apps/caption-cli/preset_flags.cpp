#include "preset_flags.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "config/fields.h"

namespace caption::cli {

namespace {

constexpr std::string_view kStopKey = "generation.stop";

// A flag that may come several times: prompts stay apart, stop strings are the lines of one value.
void add_repeatable_flag(CLI::App& command, PresetFlags& flags, const config::FieldHelp& field) {
  command
      .add_option_function<std::vector<std::string>>(
          field.flag,
          [&flags, field](const std::vector<std::string>& values) {
            std::string lines;
            for (const std::string& value : values) {
              if (field.key == kPromptKey) flags.prompts.push_back(value);
              lines += (lines.empty() ? "" : "\n") + value;
            }
            const std::string& value = field.key == kPromptKey ? values.back() : lines;
            flags.overrides.push_back({field.key, value, field.flag});
          },
          field.help + "; may be repeated")
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("")
      ->group("In place of the preset's value");
}

}  // namespace

void add_preset_flags(CLI::App& command, PresetFlags& flags) {
  command.add_option("--preset", flags.preset, "a preset's name or file (default: auto)")
      ->type_name("NAME|FILE")
      ->group("Preset");
  CLI::Option* quality =
      command.add_flag("--quality", flags.quality, "beam search with 4 beams")->group("Preset");
  command.add_flag("--speed", flags.speed, "temperature 0.8, top-p 0.95, at most 128 tokens")
      ->excludes(quality)
      ->group("Preset");
  for (const config::FieldHelp& field : config::describe_fields()) {
    if (field.flag.empty()) continue;
    if (field.key == kPromptKey || field.key == kStopKey) {
      add_repeatable_flag(command, flags, field);
      continue;
    }
    command
        .add_option_function<std::string>(
            field.flag,
            [&flags, field](const std::string& value) {
              flags.overrides.push_back({field.key, value, field.flag});
            },
            field.help)
        ->type_name("")
        ->group("In place of the preset's value");
  }
}

config::LoadedPreset load_preset(const PresetFlags& flags, const Machine& machine) {
  config::LoadedPreset loaded =
      config::load_preset(flags.preset, machine, caption::has_cuda_kernels());
  if (flags.quality) config::apply_quality(loaded.preset);
  if (flags.speed) config::apply_speed(loaded.preset);
  for (const config::Override& override_value : flags.overrides) {
    if (!is_valid_utf8(override_value.value)) {
      throw Error(ErrorCode::kUsage, override_value.source + ": the value is not valid UTF-8");
    }
    config::apply_override(loaded.preset, override_value);
  }
  return loaded;
}

}  // namespace caption::cli
