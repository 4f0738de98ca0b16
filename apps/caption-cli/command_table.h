// apps/caption-cli/command_table.h: the commands and their options as plain values, read from
// CLI11's tables; the source of --help, the manual and the completions.
//
// Three conventions, so that a command is described where it is declared:
// - the first line of a description is what --help shows; the lines after it are for the manual
//   (an empty line there begins a paragraph);
// - the type name of an option says what its value may be (option_types.h);
// - the footer of a command holds its examples, one command line each.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace caption::cli {

enum class ValueKind { kNone, kText, kFile, kFolder, kPath, kModel, kPreset, kChoice, kChoiceList };

struct OptionRow {
  std::vector<std::string> names;  // "-o", "--output"; a positional argument has "VIDEOS"
  bool is_positional = false;
  bool is_required = false;
  bool is_repeatable = false;
  std::string group;  // "Input"
  std::string summary;
  std::string details;  // additional text for the manual; may be empty
  ValueKind kind = ValueKind::kNone;
  std::string placeholder;           // "N", "SIZE", "NAME"; empty: takes no value
  std::vector<std::string> choices;  // values of a kChoice or kChoiceList
  std::string default_text;          // empty: none
  std::string limits;                // "1 to 4096"; empty: none

  const std::string& long_name() const { return names.back(); }
};

struct CommandRow {
  std::string name;  // such as "run"; for the program itself "caption-cli"
  std::string summary;
  std::string details;
  std::vector<OptionRow> options;  // includes the program's options, in the group "Other"
  std::vector<std::string> examples;
};

struct ProgramRow {
  CommandRow program;
  std::vector<CommandRow> commands;  // without hidden commands
};

OptionRow describe_option(const CLI::Option& option);
// `command` may be the root, which describes the program.
CommandRow describe_command(const CLI::App& command);
ProgramRow describe_program(const CLI::App& root);

// Returns the groups of the rows in order of first appearance, "Other" last.
std::vector<std::string> groups_of(const std::vector<OptionRow>& options);

// Returns text such as "caption-cli run [options] VIDEOS...".
std::string usage_of(const CommandRow& command);

}  // namespace caption::cli
