#include <algorithm>
#include <map>
#include <vector>

#include "base/join.h"
#include "completions.h"

namespace caption::cli {
namespace {

// Written before the tables. $1 of the _reply functions is the part of the value typed so far.
constexpr const char* kFunctions =
    R"bash(# bash completion of caption-cli. Made by: caption-cli completion bash

_caption_cli_reply_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

_caption_cli_reply_folders() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -d -- "$1")
}

_caption_cli_reply_models() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -d -- "$1"; compgen -f -X '!*.gguf' -- "$1")
}

_caption_cli_reply_words() {
  mapfile -t COMPREPLY < <(compgen -W "$2" -- "$1")
  # A word such as fps= goes on.
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
}

# Words separated by commas, each once.
_caption_cli_reply_list() {
  local done= rest= word
  [[ $1 == *,* ]] && done=${1%,*},
  for word in $2; do
    [[ ,$done == *",$word,"* ]] || rest+=" $done$word"
  done
  mapfile -t COMPREPLY < <(compgen -W "$rest" -- "$1")
  compopt -o nospace 2>/dev/null
}

_caption_cli_reply_presets() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(
    compgen -W "$("${COMP_WORDS[0]/#\~/$HOME}" presets --names 2>/dev/null)" -- "$1"
    compgen -f -X '!*.y*ml' -- "$1"
    compgen -d -- "$1")
}

)bash";

constexpr const char* kMain = R"bash(
_caption_cli() {
  COMPREPLY=()
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= word i
  # --option=value comes as three words.
  if [[ $cur == '=' ]]; then
    cur=
  elif [[ $prev == '=' && $COMP_CWORD -gt 1 ]]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
  # --adapter NAME=FOLDER comes so, too, and --adapter=NAME=FOLDER as five words.
  i=$COMP_CWORD
  [[ ${COMP_WORDS[i]} == '=' ]] || i=$((i - 1))
  if [[ $prev != -* && $i -ge 3 && ${COMP_WORDS[i]} == '=' ]]; then
    word=${COMP_WORDS[i-2]}
    [[ $word == '=' && $i -ge 4 ]] && word=${COMP_WORDS[i-3]}
    [[ $word == --adapter ]] && prev=$word
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ " $_caption_cli_commands " == *" $word "* ]]; then
      command=$word
      break
    fi
  done
  _caption_cli_value "$command" "$prev" "$cur" && return
  if [[ $cur == -* ]]; then
    _caption_cli_options "$command" "$cur"
  elif [[ -z $command ]]; then
    _caption_cli_reply_words "$cur" "$_caption_cli_commands"
  else
    _caption_cli_argument "$command" "$cur"
  fi
}

complete -F _caption_cli caption-cli
)bash";

// Returns the shell command that completes a value; empty if there is none.
std::string reply_to(const OptionRow& option) {
  std::vector<std::string> words;
  for (const std::string& choice : option.choices) {
    words.push_back(choice.substr(0, std::min(choice.find('='), choice.size() - 1) + 1));
  }
  switch (option.kind) {
    case ValueKind::kFile:
    case ValueKind::kPath: return "_caption_cli_reply_files \"$3\"";
    case ValueKind::kFolder: return "_caption_cli_reply_folders \"$3\"";
    case ValueKind::kModel: return "_caption_cli_reply_models \"$3\"";
    case ValueKind::kPreset: return "_caption_cli_reply_presets \"$3\"";
    case ValueKind::kChoice: return "_caption_cli_reply_words \"$3\" \"" + join(words, " ") + "\"";
    case ValueKind::kChoiceList:
      return "_caption_cli_reply_list \"$3\" \"" + join(words, " ") + "\"";
    case ValueKind::kNone:
    case ValueKind::kText: break;
  }
  return ":";
}

// Options with the same completion share a line: reply -> "run,--dtype|plan,--dtype".
void add_value_patterns(const CommandRow& command, const std::string& name,
                        std::map<std::string, std::vector<std::string>>& patterns) {
  for (const OptionRow& option : command.options) {
    if (option.is_positional || option.kind == ValueKind::kNone) continue;
    for (const std::string& option_name : option.names) {
      patterns[reply_to(option)].push_back(name + "," + option_name);
    }
  }
}

std::string values_function(const ProgramRow& program) {
  std::map<std::string, std::vector<std::string>> patterns;
  add_value_patterns(program.program, "", patterns);
  for (const CommandRow& command : program.commands) {
    add_value_patterns(command, command.name, patterns);
  }
  std::string out =
      "\n# COMMAND OPTION CUR: false when the option takes no value.\n_caption_cli_value() {\n"
      "  case \"$1,$2\" in\n";
  for (const auto& [reply, names] : patterns) {
    out += "    " + join(names, "|") + ") " + reply + " ;;\n";
  }
  return out + "    *) return 1 ;;\n  esac\n  return 0\n}\n";
}

std::string option_words(const CommandRow& command) {
  std::vector<std::string> words;
  for (const OptionRow& option : command.options) {
    if (option.is_positional) continue;
    words.insert(words.end(), option.names.begin(), option.names.end());
  }
  return join(words, " ");
}

std::string options_function(const ProgramRow& program) {
  std::string out =
      "\n# COMMAND CUR\n_caption_cli_options() {\n  local options=\n  case \"$1\" in\n"
      "    '') options=\"" +
      option_words(program.program) + "\" ;;\n";
  for (const CommandRow& command : program.commands) {
    out += "    " + command.name + ") options=\"" + option_words(command) + "\" ;;\n";
  }
  return out + "  esac\n  _caption_cli_reply_words \"$2\" \"$options\"\n}\n";
}

std::string arguments_function(const ProgramRow& program) {
  std::string out =
      "\n# COMMAND CUR\n_caption_cli_argument() {\n  set -- \"$1\" '' \"$2\"\n"
      "  case \"$1\" in\n";
  for (const CommandRow& command : program.commands) {
    for (const OptionRow& option : command.options) {
      if (option.is_positional) out += "    " + command.name + ") " + reply_to(option) + " ;;\n";
    }
  }
  return out + "  esac\n}\n";
}

}  // namespace

std::string bash_completion(const ProgramRow& program) {
  std::vector<std::string> names;
  for (const CommandRow& command : program.commands) names.push_back(command.name);
  return std::string(kFunctions) + "_caption_cli_commands=\"" + join(names, " ") + "\"\n" +
         values_function(program) + options_function(program) + arguments_function(program) + kMain;
}

}  // namespace caption::cli
