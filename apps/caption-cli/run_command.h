// apps/caption-cli/run_command.h: `caption-cli run`, videos to captions.
#pragma once

namespace CLI {
class App;
}

namespace caption::cli {

// Registers the subcommand. `exit_code` must outlive the parsing.
void add_run_command(CLI::App& root, int& exit_code);

}  // namespace caption::cli
