// apps/caption-cli/man_page.h: generates the manual pages (section 1) for man(1).
#pragma once

#include <string>

#include "command_table.h"

namespace caption::cli {

// caption-cli(1): the commands, the syntax of sizes and times, exit codes, the environment.
// `version` is the program's version, such as "0.1.0".
std::string program_page(const ProgramRow& program, const std::string& version);
// caption-cli-run(1) and the like: one command.
std::string command_page(const CommandRow& command, const std::string& version);

}  // namespace caption::cli
