#include <vector>

#include "base/join.h"
#include "completions.h"

namespace caption::cli {
namespace {

constexpr const char* kHead = R"zsh(#compdef caption-cli
# zsh completion of caption-cli. Made by: caption-cli completion zsh

_caption_cli_presets() {
  local -a names
  names=(${(f)"$(_call_program presets caption-cli presets --names 2>/dev/null)"})
  _alternative 'presets:preset:compadd -a names' 'files:file:_files -g "*.(yaml|yml)"'
}

)zsh";

constexpr const char* kTail = R"zsh(
if [[ $funcstack[1] == _caption-cli ]]; then
  _caption_cli "$@"
else
  compdef _caption_cli caption-cli
fi
)zsh";

// Escapes text for a single-quoted string and for the special characters of _arguments.
std::string spec_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string action_of(const OptionRow& option) {
  std::vector<std::string> words;
  for (const std::string& choice : option.choices) words.push_back(spec_text(choice));
  switch (option.kind) {
    case ValueKind::kFile:
    case ValueKind::kPath: return "_files";
    case ValueKind::kFolder: return "_files -/";
    case ValueKind::kModel: return "_files -g \"*.gguf\"";
    case ValueKind::kPreset: return "_caption_cli_presets";
    case ValueKind::kChoice: return "(" + join(words, " ") + ")";
    case ValueKind::kChoiceList: return "_sequence compadd - " + join(words, " ");
    case ValueKind::kNone:
    case ValueKind::kText: break;
  }
  return " ";
}

// Returns "'*-o[text]:FILE:_files'", or "'(-o --output)'{-o,--output}" for an option that excludes
// its other name.
std::string option_spec(const OptionRow& option) {
  const std::string value = option.kind == ValueKind::kNone
                                ? ""
                                : ":" + spec_text(option.placeholder) + ":" + action_of(option);
  const std::string text = "[" + spec_text(option.summary) + "]" + value + "'";
  // A trailing = permits the form --name=value.
  std::vector<std::string> names = option.names;
  if (option.kind != ValueKind::kNone) {
    for (std::string& name : names) name += name.starts_with("--") ? "=" : "";
  }
  const std::string any = option.is_repeatable ? "*" : "";
  if (names.size() == 1) return "'" + any + names.front() + text;
  return "'" + (any.empty() ? "(" + join(option.names, " ") + ")" : any) + "'{" + join(names, ",") +
         "}'" + text;
}

std::string argument_spec(const OptionRow& option) {
  return std::string("'") + (option.is_repeatable ? "*" : "1") + ":" +
         spec_text(option.names.front()) + ":" + action_of(option) + "'";
}

std::string specs_of(const CommandRow& command, const std::string& indent) {
  std::string out;
  for (const OptionRow& option : command.options) {
    out += " \\\n" + indent + (option.is_positional ? argument_spec(option) : option_spec(option));
  }
  return out;
}

}  // namespace

std::string zsh_completion(const ProgramRow& program) {
  std::string out =
      std::string(kHead) + "_caption_cli_commands() {\n  local -a commands\n" + "  commands=(\n";
  for (const CommandRow& command : program.commands) {
    out += "    '" + command.name + ":" + spec_text(command.summary) + "'\n";
  }
  out +=
      "  )\n  _describe -t commands command commands\n}\n\n_caption_cli() {\n"
      "  local context state state_descr line\n  typeset -A opt_args\n"
      "  _arguments -C -S" +
      specs_of(program.program, "    ") +
      " \\\n    '1: :_caption_cli_commands' \\\n    '*:: :->arguments'\n"
      "  [[ $state == arguments ]] || return\n  case $line[1] in\n";
  for (const CommandRow& command : program.commands) {
    out += "    " + command.name + ")\n      _arguments -S" + specs_of(command, "        ") +
           "\n      ;;\n";
  }
  return out + "  esac\n}\n" + kTail;
}

}  // namespace caption::cli
