#include "help_formatter.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/join.h"

#include "command_table.h"
#include "terminal.h"

namespace caption::cli {
namespace {

constexpr std::size_t kIndent = 2;
constexpr std::size_t kGap = 2;       // columns between a name and its help
constexpr std::size_t kMaxWords = 8;  // most choices listed in a line of help
// Columns; an option with a longer name has a line for itself.
constexpr std::size_t kMaxNameColumn = 30;

// Breaks text at spaces into lines of at most `columns` characters. The first line begins after
// `first_used` characters that are already there; the others are indented by `indent` spaces.
std::string wrap(std::string_view text, std::size_t columns, std::size_t indent,
                 std::size_t first_used) {
  std::string out;
  std::size_t used = first_used;
  bool is_line_empty = true;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (!is_line_empty && used + 1 + word.size() > columns) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
      is_line_empty = true;
    }
    if (!is_line_empty) {
      out += ' ';
      ++used;
    }
    out += word;
    used += word.size();
    is_line_empty = false;
  }
  return out;
}

using Line = std::pair<std::string, std::string>;  // name and help text

std::string two_columns(const std::vector<Line>& lines, std::size_t columns) {
  std::size_t width = 0;
  for (const auto& [name, text] : lines) {
    if (name.size() <= kMaxNameColumn) width = std::max(width, name.size());
  }
  const std::size_t indent = std::min(kIndent + width + kGap, columns / 2);
  std::string out;
  for (const auto& [name, text] : lines) {
    out += std::string(kIndent, ' ') + name;
    const bool fits = kIndent + name.size() + kGap <= indent;
    out +=
        fits ? std::string(indent - kIndent - name.size(), ' ') : "\n" + std::string(indent, ' ');
    out += wrap(text, columns, indent, indent) + "\n";
  }
  return out;
}

bool has_short_name(const OptionRow& option) {
  return !option.is_positional && !option.names.front().starts_with("--");
}

// "-o, --output FILE". If other options have short names, long names are aligned in a column.
std::string name_column(const OptionRow& option, bool others_have_short_names) {
  if (option.is_positional) return option.names.front() + (option.is_repeatable ? "..." : "");
  std::string out = others_have_short_names && !has_short_name(option) ? "    " : "";
  out += join(option.names);
  return option.placeholder.empty() ? out : out + " " + option.placeholder;
}

std::string text_column(const OptionRow& option) {
  std::string out = option.summary;
  const bool has_words_in_name = option.placeholder.find('|') != std::string::npos;
  if (!option.choices.empty() && !has_words_in_name) {
    std::vector<std::string> words = option.choices;
    if (words.size() > kMaxWords) {
      words.resize(kMaxWords / 2);  // completions and the manual list all
      words.emplace_back("...");
    }
    out += ": " + join(words);
  }
  if (!option.default_text.empty()) out += " [" + option.default_text + "]";
  if (option.is_required && !option.is_positional) out += " (required)";
  return out;
}

std::string examples_text(const CommandRow& command) {
  if (command.examples.empty()) return {};
  std::string out = "\nExamples:\n";
  for (const std::string& example : command.examples) {
    out += std::string(kIndent, ' ') + example + "\n";
  }
  return out;
}

std::string options_text(const CommandRow& command, std::size_t columns) {
  std::string out;
  for (const std::string& group : groups_of(command.options)) {
    std::vector<OptionRow> rows;
    std::copy_if(command.options.begin(), command.options.end(), std::back_inserter(rows),
                 [&](const OptionRow& option) { return option.group == group; });
    const bool is_indented = std::any_of(rows.begin(), rows.end(), has_short_name);
    std::vector<Line> lines;
    for (const OptionRow& option : rows) {
      lines.emplace_back(name_column(option, is_indented), text_column(option));
    }
    out += "\n" + group + ":\n" + two_columns(lines, columns);
  }
  return out;
}

std::string command_help(const CommandRow& command, std::size_t columns) {
  const bool has_default =
      std::any_of(command.options.begin(), command.options.end(),
                  [](const OptionRow& option) { return !option.default_text.empty(); });
  return wrap(command.summary, columns, 0, 0) + "\n\n" +
         wrap("Usage: " + usage_of(command), columns, kIndent, 0) + "\n" +
         (has_default ? "Without an option its value is the one in [ ].\n" : "") +
         options_text(command, columns) + examples_text(command);
}

std::string program_help(const ProgramRow& program, std::size_t columns) {
  std::vector<Line> lines;
  for (const CommandRow& command : program.commands) {
    lines.emplace_back(command.name, command.summary);
  }
  return wrap(program.program.summary, columns, 0, 0) + "\n\nUsage: " + usage_of(program.program) +
         "\n\nCommands:\n" + two_columns(lines, columns) + options_text(program.program, columns) +
         examples_text(program.program) + "\n" +
         wrap("caption-cli COMMAND --help, or help COMMAND, explains a command.", columns, 0, 0) +
         "\n";
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string /*name*/,
                                     CLI::AppFormatMode /*mode*/) const {
  const std::size_t columns = stdout_columns();
  return app->get_parent() == nullptr ? program_help(describe_program(*app), columns)
                                      : command_help(describe_command(*app), columns);
}

}  // namespace caption::cli
