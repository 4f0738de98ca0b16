#include "preset_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "config/fields.h"

namespace caption::cli {

namespace {

constexpr std::string_view kStopKey = "generation.stop";

// A flag that may come several times.
void add_repeatable_flag(CLI::App& command, PresetFlags& flags, const config::FieldHelp& field) {
  command
      .add_option_function<std::vector<std::string>>(
          field.flag,
          [&flags, field](const std::vector<std::string>& values) {
            config::Override value{field.key, values.back(), field.flag};
            if (field.key == kPromptKey) {
              flags.prompts = values;
            } else {
              value.items = values;
            }
            flags.overrides.push_back(std::move(value));
          },
          field.help + (field.key == kPromptKey ? "; repeated: every clip answers all of them, "
                                                  "named p1, p2, ... in its records"
                                                : "; may be repeated"))
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
    std::vector<std::string> texts = override_value.items;
    texts.push_back(override_value.value);
    if (!std::all_of(texts.begin(), texts.end(),
                     [](const std::string& text) { return is_valid_utf8(text); })) {
      throw Error(ErrorCode::kUsage, override_value.source + ": the value is not valid UTF-8");
    }
    config::apply_override(loaded.preset, override_value);
  }
  return loaded;
}

}  // namespace caption::cli
