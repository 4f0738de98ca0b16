// caption-cli: captions folders of videos in Korean. Each command has a separate file; this file
// only registers them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu_tier.h"
#include "backend/cpu_tier_names.h"
#include "base/error.h"
#include "base/join.h"
#include "base/log.h"
#include "bench_command.h"
#include "config/load_preset.h"
#include "doctor_command.h"
#include "documents_command.h"
#include "environment.h"
#include "eval_command.h"
#include "exit_codes.h"
#include "globals.h"
#include "help_formatter.h"
#include "inspect_command.h"
#include "option_types.h"
#include "plan_command.h"
#include "presets_command.h"
#include "process.h"
#include "quantize_command.h"
#include "run_command.h"
#include "usage_errors.h"
#include "version.h"
#include "write_text.h"

namespace caption::cli {
namespace {

// For tests and measurements; CAPTION_CPU_TIER gives the default.
void add_tier_option(CLI::App& root, Globals& globals) {
  if (const char* const name = environment_variable("CAPTION_CPU_TIER")) globals.cpu_tier = name;
  root.add_option_function<std::string>(
          "--cpu-tier",
          [&globals](const std::string& name) {
            if (!cpu_tier_from_name(name)) {
              throw CLI::ValidationError("--cpu-tier", not_one_of(cpu_tier_names(), name));
            }
            globals.cpu_tier = name;
          },
          "kernels\n"
          "The instruction sets that the CPU kernels use; without it the fastest that this machine "
          "has.")
      ->type_name(join(cpu_tier_names(), "|"))
      ->default_str("best");
}

void add_verbose_option(CLI::App& root) {
  root.add_flag_function(
      "-v,--verbose",
      [](std::int64_t count) { set_log_level(count > 1 ? LogLevel::kDebug : LogLevel::kDetail); },
      "say more on stderr; -vv: still more\n"
      "Once: what was found and chosen, and a line for each clip. Twice: the times of each clip.");
}

// CLI11 would take the argument after "--option=" for its value. As two arguments the value is
// empty.
void split_empty_values(std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    std::string& argument = arguments[i];
    if (!argument.starts_with("--") || argument.find('=') != argument.size() - 1) continue;
    argument.pop_back();
    arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, "");
    ++i;
  }
}

// Converts "help" to --help and "help COMMAND" to COMMAND --help. A word that is not a command is
// kept for the error message.
std::vector<std::string> read_arguments(const CLI::App& root, int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  split_empty_values(arguments);
  if (arguments.empty() || arguments.front() != "help") return arguments;
  arguments.erase(arguments.begin());
  if (arguments.empty() || arguments.front() == "help") return {"--help"};
  const auto commands = root.get_subcommands([](const CLI::App*) { return true; });
  const bool is_known = std::any_of(commands.begin(), commands.end(), [&](const CLI::App* command) {
    return command->get_name() == arguments.front();
  });
  if (is_known) arguments.emplace_back("--help");
  return arguments;
}

int run_main(int argc, char** argv) {
  CLI::App root(
      "Folders of video into Korean captions, offline\n"
      "FFmpeg decodes, a vision tower sees, a language model writes, and eval keeps the score: in "
      "one program, without Python, server or network. Its defaults caption with a small "
      "demonstration model; --model names one for films.",
      "caption-cli");
  root.formatter(std::make_shared<HelpFormatter>());
  root.set_help_flag("-h,--help", "this text");
  root.set_version_flag("--version", version_text, "version, commit, compiler and libraries");
  root.require_subcommand(1);
  root.fallthrough();
  add_verbose_option(root);
  Globals globals;
  globals.locations = environment_locations();
  config::warn_of_missing_presets(globals.locations.own_presets);
  add_tier_option(root, globals);
  int exit_code = kExitOk;
  add_run_command(root, globals, exit_code);
  add_eval_command(root, exit_code);
  add_plan_command(root, globals, exit_code);
  add_bench_command(root, globals, exit_code);
  add_presets_command(root, globals, exit_code);
  add_inspect_command(root, globals, exit_code);
  add_quantize_command(root, globals, exit_code);
  add_doctor_command(root, globals, exit_code);
  add_documents_commands(root, exit_code);
  root.footer(
      "caption-cli run -o captions.jsonl videos/\n"
      "caption-cli eval --references references.jsonl captions.jsonl\n"
      "caption-cli inspect --machine");
  const std::vector<std::string> arguments = read_arguments(root, argc, argv);
  if (const auto bad_value = describe_bad_value(root, arguments)) {
    return fail(*bad_value, kExitUsage);
  }
  try {
    // CLI11 expects the arguments in reverse order.
    root.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    const bool is_help = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
    if (!is_help) {
      return fail(describe_usage_error(root, arguments, error), kExitUsage);
    }
    root.exit(error);  // prints the requested text
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
  return caption::cli::run_on_large_stack(caption::cli::guarded_main, argc, argv);
}
