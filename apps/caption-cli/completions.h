// apps/caption-cli/completions.h: scripts that complete a command line in a shell.
#pragma once

#include <string>

#include "command_table.h"

namespace caption::cli {

// Commands, options, and values: words of an enumeration, files, folders, presets (asked of the
// program when they are wanted). Each for the shell's own completion system; nothing else is
// needed. Texts of the table must not hold control characters.
std::string bash_completion(const ProgramRow& program);
std::string zsh_completion(const ProgramRow& program);
std::string fish_completion(const ProgramRow& program);

}  // namespace caption::cli
