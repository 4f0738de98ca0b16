#include "preset_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/join.h"
#include "base/log.h"
#include "base/utf8.h"
#include "config/adapters.h"
#include "config/examples.h"
#include "config/fields.h"
#include "config/parse_preset.h"
#include "config/resources.h"
#include "environment.h"
#include "option_types.h"

namespace caption::cli {

namespace {

constexpr std::string_view kStopKey = "generation.stop";
constexpr std::string_view kAdapterKey = "model.adapter";

std::string group_of(const config::FieldHelp& field) {
  const std::string section = field.key.substr(0, field.key.find('.'));
  if (section == "device") return "Machine";
  if (section == "quantization") return "Model";
  std::string title = section;
  title.front() = static_cast<char>(title.front() - 'a' + 'A');
  return title;
}

std::string type_of(const config::FieldHelp& field) {
  if (!field.choices.empty()) return join(field.choices, "|");
  switch (field.means) {
    case config::Means::kBytes: return kSizeType;
    case config::Means::kSeconds: return kTimeType;
    case config::Means::kFile: return kFileType;
    case config::Means::kFolder: return kFolderType;
    case config::Means::kModel: return kModelType;
    default: return field.is_number ? kNumberType : kTextType;
  }
}

// Appends the limits to the type, in the form in which CLI11 appends the description of a check().
std::string type_with_limits(const config::FieldHelp& field) {
  return field.range.empty() ? type_of(field) : type_of(field) + ":" + field.range;
}

// Appends the details for the manual after the first line (command_table.h).
std::string description_of(const config::FieldHelp& field) {
  return field.details.empty() ? field.help : field.help + "\n" + field.details;
}

void describe(CLI::Option& option, const config::FieldHelp& field) {
  option.type_name(type_with_limits(field))->default_str(field.value)->group(group_of(field));
}

// Adds a flag that may be given several times.
void add_repeatable_flag(CLI::App& command, PresetFlags& flags, const config::FieldHelp& field) {
  CLI::Option* option = command.add_option_function<std::vector<std::string>>(
      field.flag,
      [&flags, field](const std::vector<std::string>& values) {
        config::Override value{field.key, values.back(), field.flag};
        if (field.key == kPromptKey) {
          flags.prompts = values;
        } else {
          value.items = values;
        }
        if (field.key == kAdapterKey) {
          std::transform(values.begin(), values.end(), value.items.begin(),
                         config::adapter_from_working_folder);
        }
        flags.overrides.push_back(std::move(value));
      },
      field.help + "; repeatable" +
          (field.key == kPromptKey ? "\nOf several prompts every clip answers all, and they are "
                                     "named p1, p2, ... in the records. " +
                                         field.details
           : field.details.empty() ? ""
                                   : "\n" + field.details));
  option->take_all()->allow_extra_args(false);
  describe(*option, field);
}

// Adds the flag that names a file of examples.
void add_examples_flag(CLI::App& command, PresetFlags& flags, const config::FieldHelp& field) {
  CLI::Option* option = command.add_option_function<std::string>(
      field.flag, [&flags](const std::string& file) { flags.examples_file = file; },
      description_of(field));
  describe(*option, field);
}

}  // namespace

DefaultFields default_fields() {
  try {
    const config::LoadedPreset cpu =
        config::load_preset("cpu", environment_locations(), Machine{}, caption::has_cuda_kernels());
    return {.fields = config::describe_fields(cpu.preset), .is_cpu = true};
  } catch (const Error&) {
    return {.fields = config::describe_fields()};
  }
}

void add_preset_flags(CLI::App& command, PresetFlags& flags) {
  constexpr const char* kGroup = "Preset";
  command
      .add_option(
          "--preset", flags.preset,
          "name or file; " + std::string(kDefaultsOfCpu) +
              "\n"
              "auto looks at the machine. The options of the groups that follow are set in place "
              "of the preset's values; presets --show PRESET prints those of another preset or "
              "file.")
      ->type_name(kPresetType)
      ->default_str("auto")
      ->group(kGroup);
  CLI::Option* quality =
      command.add_flag("--quality", flags.quality, "beam search with 4 beams")->group(kGroup);
  command.add_flag("--speed", flags.speed, "temperature 0.8, top-p 0.95, at most 128 tokens")
      ->excludes(quality)
      ->group(kGroup);
  for (const config::FieldHelp& field : config::describe_fields()) {
    if (field.flag.empty()) continue;
    if (field.key == kPromptKey || field.key == kStopKey || field.key == kAdapterKey) {
      add_repeatable_flag(command, flags, field);
      continue;
    }
    if (field.key == config::kExamplesKey) {
      add_examples_flag(command, flags, field);
      continue;
    }
    CLI::Option* option = command.add_option_function<std::string>(
        field.flag,
        [&flags, field](const std::string& value) {
          const bool is_model = field.means == config::Means::kModel;
          flags.overrides.push_back(
              {field.key, is_model ? config::from_working_folder(value) : value, field.flag});
        },
        description_of(field));
    describe(*option, field);
  }
}

config::LoadedPreset load_preset(const PresetFlags& flags, const config::Locations& locations,
                                 const Machine& machine) {
  config::LoadedPreset loaded =
      config::load_preset(flags.preset, locations, machine, caption::has_cuda_kernels());
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
  if (loaded.preset.device.type == config::DeviceType::kAuto) {  // --device auto
    const bool has_gpu = caption::has_cuda_kernels() && !machine.cuda_devices.empty();
    loaded.preset.device.type = has_gpu ? config::DeviceType::kCuda : config::DeviceType::kCpu;
  }
  if (!flags.examples_file.empty()) {
    config::apply_override(loaded.preset,
                           {.key = std::string(config::kExamplesKey),
                            .value = "",
                            .source = "--examples",
                            .items = config::read_example_file(flags.examples_file)});
  }
  log_detail("config", "preset " + loaded.preset.name + " of " + loaded.path.string());
  return loaded;
}

config::Locations model_locations(const std::string& preset, const config::Locations& locations,
                                  const Machine& machine) {
  try {
    return config::load_preset(preset, locations, machine, caption::has_cuda_kernels()).locations;
  } catch (const Error& error) {
    if (is_of_machine(error.code())) throw;
    return locations;
  }
}

}  // namespace caption::cli
