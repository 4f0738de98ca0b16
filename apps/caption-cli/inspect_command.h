// apps/caption-cli/inspect_command.h: `caption-cli inspect`, what a video, a model or this machine
// is.
#pragma once

namespace CLI {
class App;
}

namespace caption::cli {

// Registers the subcommand. `exit_code` must outlive the parsing.
void add_inspect_command(CLI::App& root, int& exit_code);

}  // namespace caption::cli
