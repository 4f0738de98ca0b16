// tests/app/terminal.h: runs the binary under test on a pseudo-terminal, and other programs.
#pragma once

#include <string>
#include <vector>

#include "tests/app/process.h"

namespace caption::test {

// The standard streams that are connected to the terminal; the others are /dev/null.
enum class OnTerminal { kAll, kOutputs, kErrors };

// Runs caption-cli on a new pseudo-terminal with the given number of columns. The terminal's output
// is in `out`, with "\n" line ends; `err` is empty.
Finished run_on_terminal(const std::vector<std::string>& arguments, unsigned short columns,
                         const Environment& environment = {},
                         OnTerminal streams = OnTerminal::kAll);

// Whether a program of this name is in $PATH.
bool has_program(const std::string& name);
// Runs a command line with sh; stdout and stderr are both in `out`.
Finished run_shell(const std::string& line);

}  // namespace caption::test
