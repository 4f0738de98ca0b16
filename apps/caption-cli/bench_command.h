// apps/caption-cli/bench_command.h: the command `caption-cli bench`, which measures speed relative
// to the machine's measured limits.
#pragma once

namespace CLI {
class App;
}

namespace caption::cli {

struct Globals;

// Registers the subcommand: synthetic workloads on the engine, or real videos through the whole
// pipeline. `globals` and `exit_code` must outlive the parsing.
void add_bench_command(CLI::App& root, const Globals& globals, int& exit_code);

}  // namespace caption::cli
