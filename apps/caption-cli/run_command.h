// apps/caption-cli/run_command.h: the command `caption-cli run`, which captions videos.
#pragma once

namespace CLI {
class App;
}

namespace caption::cli {

struct Globals;

// Registers the subcommand. `globals` and `exit_code` must outlive the parsing.
void add_run_command(CLI::App& root, const Globals& globals, int& exit_code);

}  // namespace caption::cli
