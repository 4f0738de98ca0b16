#include "command_table.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <string_view>
#include <tuple>
#include <utility>

#include "config/fields.h"
#include "preset_flags.h"

namespace caption::cli {
namespace {

constexpr const char* kOther = "Other";
// Choices that make the option's first column longer than this are listed in the help text instead.
constexpr std::size_t kMaxNameWithChoices = 28;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string to_upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// Splits a description into its summary and details.
std::pair<std::string, std::string> split_description(const std::string& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return {text, {}};
  return {text.substr(0, end), text.substr(end + 1)};
}

ValueKind kind_of(std::string_view type) {
  if (type.starts_with("FILE")) return ValueKind::kFile;
  if (type == "FOLDER") return ValueKind::kFolder;
  if (type == "MODEL") return ValueKind::kModel;
  if (type == "PATH") return ValueKind::kPath;
  if (type == "PRESET") return ValueKind::kPreset;
  return ValueKind::kText;
}

void set_value(const std::string& full_type, OptionRow& row) {
  const std::size_t colon = full_type.find(':');
  const std::string type = full_type.substr(0, colon);
  if (colon != std::string::npos) row.limits = full_type.substr(colon + 1);
  row.placeholder = type;
  const bool is_words = !type.empty() && std::isupper(static_cast<unsigned char>(type[0])) == 0;
  if (is_words && type.find_first_of("|,") != std::string::npos) {
    const bool is_list = type.find('|') == std::string::npos;
    row.kind = is_list ? ValueKind::kChoiceList : ValueKind::kChoice;
    row.choices = split(type, is_list ? ',' : '|');
    if (is_list) row.placeholder = "LIST";
    const bool is_long = row.long_name().size() + 1 + type.size() > kMaxNameWithChoices;
    if (!is_list && is_long) row.placeholder = "NAME";
  } else {
    row.kind = kind_of(type);
  }
}

// Adds the program's own options as the last group of every command.
void add_common_options(const CLI::App& command, std::vector<OptionRow>& rows) {
  const CLI::App* root = command.get_parent() == nullptr ? &command : command.get_parent();
  const char* group = root == &command ? "Options" : kOther;
  for (const CLI::Option* option : root->get_options()) {
    const bool is_version = option->get_lnames() == std::vector<std::string>{"version"};
    if (option == root->get_help_ptr() || option->get_group().empty()) continue;
    if (is_version && root != &command) continue;
    rows.push_back(describe_option(*option));
    rows.back().group = group;
  }
  if (command.get_help_ptr() == nullptr) return;
  rows.push_back(describe_option(*command.get_help_ptr()));
  rows.back().group = group;
}

// Sets the default of each preset option to its value in the default preset.
void set_preset_values(std::vector<OptionRow>& rows) {
  const auto has_name = [](const OptionRow& row, const std::string& name) {
    return !row.is_positional && row.long_name() == name;
  };
  const auto is_preset = [&](const OptionRow& row) { return has_name(row, "--preset"); };
  if (std::none_of(rows.begin(), rows.end(), is_preset)) return;
  const DefaultFields defaults = default_fields();
  for (OptionRow& row : rows) {
    const std::size_t at = row.summary.find(kDefaultsOfCpu);
    if (!defaults.is_cpu && at != std::string::npos) {
      row.summary.replace(at, kDefaultsOfCpu.size(), kDefaultsOfNone);
    }
    for (const config::FieldHelp& field : defaults.fields) {
      if (!field.flag.empty() && has_name(row, field.flag)) row.default_text = field.value;
    }
  }
}

}  // namespace

OptionRow describe_option(const CLI::Option& option) {
  OptionRow row;
  row.is_positional = option.get_positional();
  row.is_required = option.get_required();
  row.is_repeatable = option.get_items_expected_max() > 1;
  row.group = option.get_group();
  std::tie(row.summary, row.details) = split_description(option.get_description());
  if (row.is_positional) {
    row.names = {to_upper(option.get_name(true))};
  } else {
    for (const std::string& name : option.get_snames()) row.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) row.names.push_back("--" + name);
  }
  if (option.get_items_expected_max() > 0) {
    set_value(option.get_type_name(), row);
    row.default_text = option.get_default_str();
  }
  return row;
}

CommandRow describe_command(const CLI::App& command) {
  CommandRow row;
  row.name = command.get_name();
  std::tie(row.summary, row.details) = split_description(command.get_description());
  if (command.get_parent() != nullptr) {
    for (const CLI::Option* option : command.get_options()) {
      if (option == command.get_help_ptr() || option->get_group().empty()) continue;
      row.options.push_back(describe_option(*option));
    }
  }
  add_common_options(command, row.options);
  set_preset_values(row.options);
  for (std::string& line : split(command.get_footer(), '\n')) {
    if (!line.empty()) row.examples.push_back(std::move(line));
  }
  return row;
}

ProgramRow describe_program(const CLI::App& root) {
  ProgramRow out{.program = describe_command(root), .commands = {}};
  for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) out.commands.push_back(describe_command(*command));
  }
  return out;
}

std::vector<std::string> groups_of(const std::vector<OptionRow>& options) {
  std::vector<std::string> groups;
  bool has_other = false;
  for (const OptionRow& option : options) {
    has_other = has_other || option.group == kOther;
    const bool is_new = std::find(groups.begin(), groups.end(), option.group) == groups.end();
    if (is_new && option.group != kOther) groups.push_back(option.group);
  }
  if (has_other) groups.emplace_back(kOther);
  return groups;
}

std::string usage_of(const CommandRow& command) {
  if (command.name == "caption-cli") return "caption-cli COMMAND [options]";
  std::string out = "caption-cli " + command.name + " [options]";
  for (const OptionRow& option : command.options) {
    if (option.is_positional) {
      const std::string name = option.names.front() + (option.is_repeatable ? "..." : "");
      out += option.is_required ? " " + name : " [" + name + "]";
    } else if (option.is_required) {
      out += " " + option.long_name() + " " + option.placeholder;
    }
  }
  return out;
}

}  // namespace caption::cli
