// tests/app/terminal.h: the binary under test on a terminal of its own, and other programs.
#pragma once

#include <string>
#include <vector>

#include "tests/app/process.h"

namespace caption::test {

// Which standard streams are on the terminal; the others are on /dev/null.
enum class OnTerminal { kAll, kOutputs, kErrors };

// Runs caption-cli with its standard streams on a new terminal of so many columns. What the
// terminal was sent is in `out`, with "\n" line ends; `err` stays empty.
Finished run_on_terminal(const std::vector<std::string>& arguments, unsigned short columns,
                         const Environment& environment = {},
                         OnTerminal streams = OnTerminal::kAll);

// Whether a program of this name is in $PATH.
bool has_program(const std::string& name);
// A line for sh; both outputs are in `out`.
Finished run_shell(const std::string& line);

}  // namespace caption::test
