// apps/caption-cli/run_flags.h: the flags of `caption-cli run`.
#pragma once

#include <string>

#include "input_flags.h"
#include "preset_flags.h"
#include "run_output.h"

namespace CLI {
class App;
}

namespace caption::cli {

struct RunFlags {
  PresetFlags preset;
  InputFlags input;
  OutputFlags output;
  std::string prompts_file;
  bool trust_times = false;
  bool quiet = false;
  bool is_dry = false;
};

// Adds them to the command. `flags` must outlive the parsing.
void add_run_flags(CLI::App& command, RunFlags& flags);

}  // namespace caption::cli
