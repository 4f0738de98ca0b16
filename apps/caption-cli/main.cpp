// caption-cli: folders of video into Korean captions. One file per command; this one knows only
// their names.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

#include "backend/cpu_tier.h"
#include "base/error.h"
#include "bench_command.h"
#include "doctor_command.h"
#include "eval_command.h"
#include "exit_codes.h"
#include "inspect_command.h"
#include "plan_command.h"
#include "presets_command.h"
#include "process.h"
#include "run_command.h"
#include "write_text.h"

namespace caption::cli {
namespace {

// For tests and measurements: every stream asks choose_cpu_tier(), which reads the variable.
void add_tier_option(CLI::App& root) {
  root.add_option_function<std::string>(
          "--cpu-tier",
          [](const std::string& name) {
            if (!cpu_tier_from_name(name)) {
              throw CLI::ValidationError(
                  "--cpu-tier",
                  "there is no \"" + name + "\"; use reference, avx2, avx512, avx512bf16 or amx");
            }
            ::setenv("CAPTION_CPU_TIER", name.c_str(), 1);
          },
          "instruction sets of the CPU kernels (default: the fastest this machine has)")
      ->option_text("NAME");
}

int run_main(int argc, char** argv) {
  CLI::App root("Folders of video into Korean captions, offline.", "caption-cli");
  root.set_version_flag("--version", std::string("caption-cli ") + CAPTION_VERSION);
  root.require_subcommand(1);
  root.fallthrough();
  add_tier_option(root);
  root.get_formatter()->column_width(34);
  int exit_code = kExitOk;
  add_run_command(root, exit_code);
  add_eval_command(root, exit_code);
  add_plan_command(root, exit_code);
  add_bench_command(root, exit_code);
  add_presets_command(root, exit_code);
  add_inspect_command(root, exit_code);
  add_doctor_command(root, exit_code);
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_help = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
    if (!is_help) {
      return fail(std::string(error.what()) + "; caption-cli --help shows the way", kExitUsage);
    }
    root.exit(error);  // prints it
  }
  flush_stdout();
  return exit_code;
}

int guarded_main(int argc, char** argv) noexcept {
  try {
    return run_main(argc, argv);
  } catch (...) {
    return report_exception();
  }
}

}  // namespace
}  // namespace caption::cli

int main(int argc, char** argv) {
  caption::cli::prepare_process();
  return caption::cli::guarded_main(argc, argv);
}
