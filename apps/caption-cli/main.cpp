// caption-cli: folders of video into Korean captions. One file per command; this one knows only
// their names and what an error means for the process.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <new>
#include <string>

#include "backend/cpu_tier.h"
#include "base/error.h"
#include "base/log.h"
#include "bench_command.h"
#include "eval_command.h"
#include "exit_codes.h"
#include "inspect_command.h"
#include "plan_command.h"
#include "presets_command.h"
#include "records/file_name.h"
#include "run_command.h"

namespace caption::cli {
namespace {

// One line on stderr, whatever the message holds.
int fail(const std::string& message, int exit_code) {
  log(LogLevel::kError, "caption-cli", records::escape_file_name(message));
  return exit_code;
}

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
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_help = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
    if (!is_help) {
      return fail(std::string(error.what()) + "; caption-cli --help shows the way", kExitUsage);
    }
    exit_code = root.exit(error);  // prints it
  }
  std::cout.flush();
  if (!std::cout) return fail("standard output: cannot write", kExitIo);
  return exit_code;
}

}  // namespace
}  // namespace caption::cli

int main(int argc, char** argv) {
  using namespace caption;
  try {
    return cli::run_main(argc, argv);
  } catch (const Error& error) {
    return cli::fail(error.what(), cli::exit_code_of(error.code()));
  } catch (const std::bad_alloc&) {
    return cli::fail("out of memory", cli::kExitUnavailable);
  } catch (const std::exception& error) {
    return cli::fail(std::string("internal error: ") + error.what(), cli::kExitInternal);
  }
}
