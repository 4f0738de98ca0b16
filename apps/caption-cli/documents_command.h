// apps/caption-cli/documents_command.h: `caption-cli completion`, and `caption-cli man`, which the
// build calls and --help does not show.
#pragma once

namespace CLI {
class App;
}

namespace caption::cli {

// Added after all other commands. `root` must live as long as its callbacks.
void add_documents_commands(CLI::App& root, int& exit_code);

}  // namespace caption::cli
