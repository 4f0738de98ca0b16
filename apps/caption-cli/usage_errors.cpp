#include "usage_errors.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "base/join.h"
#include "base/nearest.h"
#include "base/open_file.h"
#include "command_table.h"
#include "option_examples.h"

namespace caption::cli {
namespace {

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

// Returns the command in the arguments, or nullptr if there is none.
const CLI::App* begun_command(const CLI::App& root, const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; })) {
      if (command->get_name() == argument && command->parsed()) return command;
    }
  }
  return nullptr;
}

std::vector<std::string> option_names(const CommandRow& command) {
  std::vector<std::string> names;
  for (const OptionRow& option : command.options) {
    if (option.is_positional) continue;
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& root) {
  std::vector<std::string> names;
  for (const CommandRow& command : describe_program(root).commands) names.push_back(command.name);
  return names;
}

std::string see_help(const CommandRow& command) {
  const bool is_program = command.name == "caption-cli";
  return "see caption-cli " + (is_program ? "" : command.name + " ") + "--help";
}

const OptionRow* find_option(const CommandRow& command, std::string_view name) {
  for (const OptionRow& option : command.options) {
    const bool is_it =
        std::find(option.names.begin(), option.names.end(), name) != option.names.end();
    if (is_it) return &option;
  }
  return nullptr;
}

// The option that CLI11's message names first: "--frames: 1 required N missing".
const OptionRow* option_of_message(const CommandRow& command, std::string_view message) {
  return find_option(command, message.substr(0, message.find_first_of(": ")));
}

// Returns the arguments that no option accepted, in order.
std::vector<std::string> find_extras(const CLI::App& root,
                                     const std::vector<std::string>& arguments) {
  const std::vector<std::string> known = root.remaining(true);
  std::vector<std::string> extras;
  std::copy_if(arguments.begin(), arguments.end(), std::back_inserter(extras),
               [&](const std::string& argument) {
                 return std::find(known.begin(), known.end(), argument) != known.end();
               });
  return extras;
}

// Prefers an option, because other leftover arguments may have been meant as its value.
std::optional<std::string> worst_extra(const CLI::App& root,
                                       const std::vector<std::string>& arguments) {
  const std::vector<std::string> extras = find_extras(root, arguments);
  if (extras.empty()) return std::nullopt;
  const auto option = std::find_if(extras.begin(), extras.end(),
                                   [](const std::string& extra) { return extra.starts_with("-"); });
  return option == extras.end() ? extras.front() : *option;
}

bool stands_before(const std::vector<std::string>& arguments, const std::string& extra,
                   const std::string& command) {
  const auto first = std::find(arguments.begin(), arguments.end(), extra);
  return std::find(first, arguments.end(), command) != arguments.end() &&
         std::find(arguments.begin(), first, command) == first;
}

std::string describe_extra(const CommandRow& command, const std::vector<std::string>& arguments,
                           const std::string& extra) {
  if (extra.starts_with("-")) {
    const std::string name = extra.substr(0, extra.find('='));
    const OptionRow* known = find_option(command, name);
    if (known != nullptr && stands_before(arguments, extra, command.name)) {
      const std::string value = known->placeholder.empty() ? "" : " " + known->placeholder;
      return name + " is an option of " + command.name + " and stands behind it: caption-cli " +
             command.name + " " + name + value + " ...";
    }
    std::string meant = did_you_mean(name, option_names(command));
    if (meant.empty()) meant = "; " + see_help(command);
    return command.name + ": there is no option " + name + meant;
  }
  return command.name + ": nothing takes the argument " + quoted(extra) + "; " +
         "usage: " + usage_of(command);
}

std::string describe_missing_command(const CLI::App& root,
                                     const std::vector<std::string>& arguments) {
  const std::vector<std::string> names = command_names(root);
  const std::string known = "the commands are " + join(names);
  const std::vector<std::string> extras = find_extras(root, arguments);
  if (extras.empty()) {
    return "a command is missing; " + known + "; caption-cli --help describes them";
  }
  const CommandRow program = describe_command(root);
  const std::string& extra = extras.front();
  if (extra.starts_with("-")) {
    const std::string name = extra.substr(0, extra.find('='));
    const std::string meant = did_you_mean(name, option_names(program));
    return "there is no option " + name + " before a command" +
           (meant.empty() ? "; " + see_help(program) : meant);
  }
  const std::string meant = did_you_mean(extra, names);
  return "there is no command " + quoted(extra) + (meant.empty() ? "; " + known : meant);
}

std::string describe_missing(const CLI::App& begun, const CommandRow& command) {
  std::vector<std::string> missing;
  for (const CLI::Option* option : begun.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    const OptionRow row = describe_option(*option);
    missing.push_back(row.is_positional ? row.long_name()
                                        : row.long_name() + " " + row.placeholder);
  }
  const std::string example = command.examples.empty() ? "; " + see_help(command)
                                                       : "; example: " + command.examples.front();
  return command.name + ": " + join(missing, " and ") +
         (missing.size() == 1 ? " is missing" : " are missing") + example;
}

// "run: --frames needs a value (N)"
std::string describe_need(const std::string& command, const OptionRow& option) {
  std::string what = option.placeholder;
  if (option.kind == ValueKind::kChoice) what = "one of " + join(option.choices);
  if (option.kind == ValueKind::kChoiceList) what = "some of " + join(option.choices, ",");
  return command + ": " + option.long_name() + " needs a value (" + what + ")";
}

// Handles an `option` that was given without its value or more than once.
std::string describe_count(const CommandRow& command, const OptionRow& option,
                           const std::string& message) {
  const std::string where = command.name + ": " + option.long_name();
  if (option.kind == ValueKind::kNone) return where + " takes no value";
  const bool is_missing = message.find("missing") != std::string::npos;
  if (!is_missing) return where + " is given more than once; " + see_help(command);
  return describe_need(command.name, option) + ", for example: " + example_of(command.name, option);
}

// The option of the command or the program that is written so, or nullptr.
const CLI::Option* find_option(const CLI::App& root, const CLI::App* command,
                               const std::string& argument) {
  for (const CLI::App* app : {command, &root}) {
    if (app == nullptr) continue;
    for (const CLI::Option* option : app->get_options()) {
      const auto has = [&](const std::vector<std::string>& names, const std::string& dashes) {
        return std::any_of(names.begin(), names.end(),
                           [&](const std::string& name) { return argument == dashes + name; });
      };
      if (has(option->get_snames(), "-") || has(option->get_lnames(), "--")) return option;
    }
  }
  return nullptr;
}

// The command that the arguments name, or nullptr.
const CLI::App* named_command(const CLI::App& root, const std::vector<std::string>& arguments) {
  const auto commands = root.get_subcommands([](const CLI::App*) { return true; });
  for (const std::string& argument : arguments) {
    const auto named = std::find_if(commands.begin(), commands.end(), [&](const CLI::App* one) {
      return one->get_name() == argument;
    });
    if (named != commands.end()) return *named;
  }
  return nullptr;
}

// An option whose empty value means something: none in the place of the preset's, or the captions
// that name no adapter or prompt.
bool may_be_empty(const std::string& command, const std::string& option) {
  if (command == "eval") return option == "--adapter" || option == "--prompt";
  return option == "--system" || option == "--kv-cache-dir" || option == "--draft-model";
}

// Whether a list such as "1,,2" has an item without a character, which CLI11 would leave out.
bool has_empty_item(const std::string& list, char delimiter) {
  if (delimiter == '\0' || list.empty()) return false;
  const std::string two(2, delimiter);
  return list.front() == delimiter || list.back() == delimiter ||
         list.find(two) != std::string::npos;
}

// Whether a word is a path rather than a choice: it has a dot or a slash, or a file has this name.
bool looks_like_path(const std::string& word) {
  return word.find_first_of("./") != std::string::npos || is_present(word);
}

// Describes an option with choices that took a path for its value, such as the video that follows
// --prefix-cache; absent if there is none.
std::optional<std::string> describe_taken_word(const CLI::App& begun, const CommandRow& command) {
  for (const CLI::Option* option : begun.get_options()) {
    const OptionRow row = describe_option(*option);
    if (row.is_positional || row.kind != ValueKind::kChoice || option->count() == 0) continue;
    const std::string value = option->results().back();
    if (!looks_like_path(value)) continue;
    return describe_need(command.name, row) + ", and " + quoted(value) +
           " follows it; for example: " + example_of(command.name, row);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> describe_bad_value(const CLI::App& root,
                                              const std::vector<std::string>& arguments) {
  const CLI::App* command = named_command(root, arguments);
  const std::string name = command == nullptr ? "caption-cli" : command->get_name();
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::size_t sign = arguments[i].find('=');
    if (arguments[i].empty()) {
      const CommandRow row = describe_command(command == nullptr ? root : *command);
      return name + ": an argument is empty (\"\"); usage: " + usage_of(row);
    }
    const CLI::Option* option = find_option(root, command, arguments[i].substr(0, sign));
    if (option == nullptr || option->get_items_expected_max() == 0) continue;
    const bool is_apart = sign == std::string::npos;
    if (is_apart && i + 1 == arguments.size()) break;
    const std::string value = is_apart ? arguments[++i] : arguments[i].substr(sign + 1);
    const OptionRow row = describe_option(*option);
    if (is_apart && find_option(root, command, value) != nullptr) {
      return describe_need(name, row) + ", and the option " + value +
             " follows it; for example: " + example_of(name, row) + " " + value;
    }
    if (value.empty() && !may_be_empty(name, row.long_name())) {
      const bool is_asked = row.long_name() == "--prompt" && name != "eval";
      return describe_need(name, row) + ", and \"\" is none; " +
             (is_asked ? "without --prompt the model is asked its own or the preset's; " : "") +
             "for example: " + example_of(name, row);
    }
    if (has_empty_item(value, option->get_delimiter())) {
      return name + ": " + row.long_name() + " " + quoted(value) + ": an item of the list is empty";
    }
  }
  return std::nullopt;
}

std::string describe_usage_error(const CLI::App& root, const std::vector<std::string>& arguments,
                                 const CLI::ParseError& error) {
  const CLI::App* begun = begun_command(root, arguments);
  if (begun == nullptr && dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr &&
      dynamic_cast<const CLI::ValidationError*>(&error) == nullptr) {
    return describe_missing_command(root, arguments);
  }
  const CommandRow command = describe_command(begun == nullptr ? root : *begun);
  const std::string message = error.what();
  const OptionRow* option = option_of_message(command, message);
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) return error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && option != nullptr) {
    return describe_count(command, *option, message);
  }
  if (const std::optional<std::string> extra = worst_extra(root, arguments)) {
    return describe_extra(command, arguments, *extra);
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && begun != nullptr) {
    const std::optional<std::string> taken = describe_taken_word(*begun, command);
    return taken ? *taken : describe_missing(*begun, command);
  }
  return command.name + ": " + message + "; " + see_help(command);
}

}  // namespace caption::cli
