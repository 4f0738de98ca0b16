#include "input_flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/open_file.h"
#include "pipeline/find_videos.h"
#include "pipeline/path_filter.h"

namespace caption::cli {
namespace {

constexpr const char* kGroup = "Which clips";

pipeline::InputList first_clips(const pipeline::InputList& inputs, std::int64_t limit,
                                const video::ReadOptions& read) {
  pipeline::InputList first;
  std::int64_t num_clips = 0;
  std::size_t i = 0;
  for (; i < inputs.size() && num_clips < limit; ++i) {
    first.add(inputs.path(i), inputs.origin(i));
    if (is_clip(inputs, i, read)) ++num_clips;
  }
  if (i < inputs.size()) {
    log_info("run", "--limit: the first " + counted(num_clips, "clip") + "; " +
                        counted(std::ssize(inputs) - static_cast<std::int64_t>(i), "file") +
                        " behind them left out");
  }
  return first;
}

}  // namespace

void add_input_flags(CLI::App& command, InputFlags& flags) {
  command
      .add_option("videos", flags.paths,
                  "videos, folders (walked whole), or - for paths on standard input")
      ->type_name("PATH")
      ->required();
  command.add_flag("-0", flags.null_separated, "paths on standard input end in NUL bytes");
  command
      .add_option("--include", flags.include,
                  "only files that match; may be repeated. A pattern as of the shell (* ? [a-z]; * "
                  "matches / too): without a / for the name of the file or of a folder it is in, "
                  "with a / for the path below the folder given. Files named on the command line "
                  "or in a list are filtered as well, by their names and the paths given")
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("GLOB")
      ->group(kGroup);
  command
      .add_option("--exclude", flags.exclude,
                  "no file that matches, whatever --include says; may be repeated")
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("GLOB")
      ->group(kGroup);
  command
      .add_option("--limit", flags.limit,
                  "only the first N clips that are left, in the order of the walk; those that have "
                  "their records already count")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40).description(""))
      ->type_name("N")
      ->group(kGroup);
}

pipeline::InputList find_inputs(const InputFlags& flags, const video::ReadOptions& read) {
  const pipeline::PathFilter filter(flags.include, flags.exclude);
  pipeline::FoundVideos found = pipeline::find_videos(
      flags.paths, {.descriptor = STDIN_FILENO, .separator = flags.null_separated ? '\0' : '\n'},
      filter);
  for (const std::string& skipped : pipeline::describe_skipped(found)) log_warning("run", skipped);
  const std::string filtered = pipeline::describe_filtered(found);
  if (found.inputs.empty()) {
    throw Error(ErrorCode::kUsage, filtered.empty()
                                       ? "run: no file in what was given; name videos or folders "
                                         "of them"
                                       : "run: no file is left: " + filtered);
  }
  if (!filtered.empty()) log_info("run", filtered);
  if (flags.limit == 0) return std::move(found.inputs);
  return first_clips(found.inputs, flags.limit, read);
}

bool is_clip(const pipeline::InputList& inputs, std::size_t i, const video::ReadOptions& read) {
  const std::string path(inputs.path(i));
  if (inputs.origin(i) == pipeline::Origin::kNamed || pipeline::claims_to_be_video(path)) {
    return true;
  }
  try {
    video::require_video(OpenFile(path), read);
    return true;
  } catch (const Error& error) {
    return error.code() != ErrorCode::kNotVideo && error.code() != ErrorCode::kNoVideoStream;
  }
}

}  // namespace caption::cli
