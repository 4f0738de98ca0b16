// apps/caption-cli/option_examples.h: a value for each option, for the example in a message.
#pragma once

#include <string>

#include "command_table.h"

namespace caption::cli {

// Returns text such as "--frames 8" that the command accepts as it stands on every machine: with
// the other options without which this one is refused, and quotes for the shell where a word needs
// them. Files and folders in it are names as a user may have.
std::string example_of(const std::string& command, const OptionRow& option);

}  // namespace caption::cli
