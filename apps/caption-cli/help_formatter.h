// apps/caption-cli/help_formatter.h: what --help prints.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace caption::cli {

// One line per option, its group's name above it, examples at the end, in the columns that the
// terminal has. The texts come from command_table.h.
class HelpFormatter final : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

}  // namespace caption::cli
