// apps/caption-cli/bench_command.h: the command `caption-cli bench`, which measures speed relative
// to the machine's measured limits.
#pragma once

namespace CLI {
class App;
}

namespace caption::cli {

// Registers the subcommand: synthetic workloads on the engine, or real videos through the whole
// pipeline. `exit_code` must outlive the parsing.
void add_bench_command(CLI::App& root, int& exit_code);

}  // namespace caption::cli
