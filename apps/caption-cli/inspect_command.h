// apps/caption-cli/inspect_command.h: the command `caption-cli inspect`, which describes videos,
// models or this machine.
#pragma once

namespace CLI {
class App;
}

namespace caption::cli {

struct Globals;

// Registers the subcommand. `globals` and `exit_code` must outlive the parsing.
void add_inspect_command(CLI::App& root, const Globals& globals, int& exit_code);

}  // namespace caption::cli
