// apps/caption-cli/doctor_command.h: the command `caption-cli doctor`, which reports what this
// machine can run.
#pragma once

namespace CLI {
class App;
}

namespace caption::cli {

struct Globals;

// Adds the subcommand; its callback runs it and writes the exit code: kExitOk when `run` and `eval`
// work here, kExitUnavailable when something that they need is missing. Throws Error(kIo) when
// stdout cannot be written.
void add_doctor_command(CLI::App& root, const Globals& globals, int& exit_code);

}  // namespace caption::cli
