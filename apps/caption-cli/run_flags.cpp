#include "run_flags.h"

#include <CLI/CLI.hpp>
#include <string>

#include "base/join.h"
#include "option_types.h"
#include "records/format.h"
#include "run_output.h"

namespace caption::cli {
namespace {

void add_prompt_flags(CLI::App& command, RunFlags& flags) {
  constexpr const char* kGroup = "Input";
  command
      .add_option(
          "--prompts", flags.prompts_file,
          "prompts, one per line: NAME<tab>PROMPT\n"
          "A UTF-8 file. A line without a tab is a prompt alone, named p1, p2, ...; a line "
          "that begins with # is a comment. Every clip answers all of them, each in a record with "
          "\"prompt\": "
          "NAME. A line may be JSON: {\"name\": NAME, \"prompt\": PROMPT, \"adapter\": NAME of "
          "--adapter}. A clip is decoded and encoded once for all its prompts.")
      ->type_name(kFileType)
      ->group(kGroup);
  command
      .add_flag("--trust-times", flags.trust_times,
                "know clips by path, size and time alone\n"
                "For slow storage: clips are not read whole to be hashed. Records have no \"id\", "
                "and moved or equal files are not recognised.")
      ->group(kGroup);
}

void add_output_flags(CLI::App& command, RunFlags& flags) {
  constexpr const char* kGroup = "Output";
  command
      .add_option_function<std::string>(
          "-o,--output",
          [&output = flags.output](const std::string& path) {
            output.path = path;
            output.is_given = true;
          },
          "append records; jsonl can be continued\n"
          "A run that was interrupted is continued by the same command. FILE.manifest.json "
          "beside it names everything that decides a caption; another configuration on the "
          "same output is refused with the difference named.")
      ->type_name(kFileType)
      ->default_str("stdout")
      ->group(kGroup);
  command
      .add_option("--format", flags.output.format,
                  "how records are written\n"
                  "Without it the suffix of -o decides; records for standard output are jsonl, and "
                  "txt on a terminal. Only jsonl files can be continued or retried.")
      ->type_name(join(records::format_names(), "|"))
      ->default_str("by suffix")
      ->group(kGroup);
  command
      .add_flag("--retry-failed", flags.output.retry_failed,
                "try the failed clips of -o again\n"
                "As --retry failed. What failed for want of memory, time or a whole read is always "
                "tried again.")
      ->group(kGroup);
  command
      .add_option("--retry", flags.output.retry,
                  "make again\n"
                  "The records of -o with these statuses. Generation options may differ from the "
                  "first run's. A record stays until a better "
                  "one is there: of a better status, or a longer piece of a cut caption.")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name(join(retry_names(), ","))
      ->group(kGroup);
  command
      .add_flag("--overwrite", flags.output.overwrite,
                "start -o anew, in FILE.new until the run has ended")
      ->group(kGroup);
  command
      .add_flag("--stream", flags.output.is_streamed, "one video: its caption alone, as it comes")
      ->group(kGroup);
  command
      .add_flag(
          "--dry-run", flags.is_dry,
          "say what would be done; write nothing\n"
          "Says how many captions would be made, how many have their records, what the output "
          "is, and how long it would take. With -vv each clip has a line.")
      ->group(kGroup);
  command.add_flag("-q,--quiet", flags.quiet, "only warnings and errors on stderr")->group(kGroup);
}

}  // namespace

void add_run_flags(CLI::App& command, RunFlags& flags) {
  add_input_flags(command, flags.input);
  add_prompt_flags(command, flags);
  add_output_flags(command, flags);
  add_preset_flags(command, flags.preset);
}

}  // namespace caption::cli
