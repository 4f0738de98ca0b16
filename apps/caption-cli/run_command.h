// apps/caption-cli/run_command.h: the command `caption-cli run`, which captions videos.
#pragma once

namespace CLI {
class App;
}

namespace caption::cli {

// Registers the subcommand. `exit_code` must outlive the parsing.
void add_run_command(CLI::App& root, int& exit_code);

}  // namespace caption::cli
