#include <vector>

#include "base/join.h"
#include "completions.h"

namespace caption::cli {
namespace {

// Quotes text for a single-quoted string.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string value_flags(const OptionRow& option) {
  switch (option.kind) {
    case ValueKind::kNone: return "";
    case ValueKind::kFile:
    case ValueKind::kPath: return " -r -F";
    case ValueKind::kFolder: return " -x -a '(__fish_complete_directories)'";
    case ValueKind::kModel: return " -x -a '(__fish_complete_suffix .gguf)'";
    case ValueKind::kPreset: return " -r -F -a '(caption-cli presets --names 2>/dev/null)'";
    case ValueKind::kChoice: return " -x -a " + quoted(join(option.choices, " "));
    case ValueKind::kChoiceList:
      return " -x -a '(__fish_append , " + join(option.choices, " ") + ")'";
    case ValueKind::kText: return " -x";
  }
  return "";
}

std::string option_line(const OptionRow& option, const std::string& condition) {
  std::string names;
  for (const std::string& name : option.names) {
    names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  return "complete -c caption-cli" + condition + names + value_flags(option) + " -d " +
         quoted(option.summary) + "\n";
}

std::string command_lines(const CommandRow& command) {
  const std::string condition = " -n '__fish_seen_subcommand_from " + command.name + "'";
  std::string out;
  for (const OptionRow& option : command.options) {
    if (!option.is_positional) {
      out += option_line(option, condition);
      continue;
    }
    const bool is_words = option.kind == ValueKind::kChoice;
    out += "complete -c caption-cli" + condition +
           (is_words ? " -f -a " + quoted(join(option.choices, " ")) : " -F") + "\n";
  }
  return out;
}

}  // namespace

std::string fish_completion(const ProgramRow& program) {
  std::vector<std::string> names;
  for (const CommandRow& command : program.commands) names.push_back(command.name);
  const std::string none = " -n 'not __fish_seen_subcommand_from " + join(names, " ") + "'";
  std::string out =
      "# fish completion of caption-cli. Made by: caption-cli completion fish\n"
      "complete -c caption-cli -f\n";
  for (const CommandRow& command : program.commands) {
    out += "complete -c caption-cli" + none + " -a " + command.name + " -d " +
           quoted(command.summary) + "\n";
  }
  for (const OptionRow& option : program.program.options) out += option_line(option, none);
  for (const CommandRow& command : program.commands) out += command_lines(command);
  return out;
}

}  // namespace caption::cli
