// apps/caption-cli/completions.h: generates shell scripts that complete command lines.
#pragma once

#include <string>

#include "command_table.h"

namespace caption::cli {

// Return a script that completes commands, options and values: words of an enumeration, files,
// folders and presets (listed by calling the program at completion time). Each uses only the
// shell's built-in completion system. Texts of the table must not contain control characters.
std::string bash_completion(const ProgramRow& program);
std::string zsh_completion(const ProgramRow& program);
std::string fish_completion(const ProgramRow& program);

}  // namespace caption::cli
