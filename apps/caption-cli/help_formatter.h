// apps/caption-cli/help_formatter.h: formats the text of --help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace caption::cli {

// One line per option below its group's name, examples at the end, wrapped to the terminal's
// columns. The texts come from command_table.h.
class HelpFormatter final : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

}  // namespace caption::cli
