// apps/caption-cli/plan_command.h: the command `caption-cli plan`, which predicts memory and speed
// before anything is loaded.
#pragma once

namespace CLI {
class App;
}

namespace caption::cli {

struct Globals;

// Registers the subcommand. Its callback sets `exit_code` to 0, or to the exit code with which
// `run` would end; it throws caption::Error (kUsage, kBadPreset, kBadModel, kUnavailable) where
// nothing can be planned. `globals` and `exit_code` must outlive the parsing.
void add_plan_command(CLI::App& root, const Globals& globals, int& exit_code);

}  // namespace caption::cli
