// apps/caption-cli/eval_command.h: the command `caption-cli eval`, which scores captions against
// references.
#pragma once

namespace CLI {
class App;
}

namespace caption::cli {

// Registers the subcommand. Its callback writes the report and sets `exit_code` to 0; it throws
// caption::Error (kBadReference, kUsage, kIo) otherwise. `exit_code` must outlive the parsing.
void add_eval_command(CLI::App& root, int& exit_code);

}  // namespace caption::cli
