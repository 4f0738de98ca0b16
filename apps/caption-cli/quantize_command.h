// apps/caption-cli/quantize_command.h: the command `caption-cli quantize`, which makes quantised
// checkpoints.
#pragma once

namespace CLI {
class App;
}

namespace caption::cli {

struct Globals;

// Registers the subcommand. Its callback sets `exit_code`, and throws as
// quantise::quantise_checkpoint(). `globals` and `exit_code` must outlive the parsing.
void add_quantize_command(CLI::App& root, const Globals& globals, int& exit_code);

}  // namespace caption::cli
