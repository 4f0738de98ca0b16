// apps/caption-cli/documents_command.h: the commands `completion` and `man`. The build calls both;
// --help does not list `man`.
#pragma once

namespace CLI {
class App;
}

namespace caption::cli {

// Must be called after all other commands are added. `root` must outlive its callbacks.
void add_documents_commands(CLI::App& root, int& exit_code);

}  // namespace caption::cli
