// apps/caption-cli/presets_command.h: the command `caption-cli presets`, which lists presets and
// whether they run here, shows one, and holds them against their plans.
#pragma once

namespace CLI {
class App;
}

namespace caption::cli {

struct Globals;

// Registers the subcommand. `exit_code` must outlive the parsing.
void add_presets_command(CLI::App& root, const Globals& globals, int& exit_code);

}  // namespace caption::cli
