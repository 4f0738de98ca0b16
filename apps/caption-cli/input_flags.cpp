#include "input_flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/open_file.h"
#include "option_types.h"
#include "pipeline/find_videos.h"
#include "pipeline/path_filter.h"

namespace caption::cli {
namespace {

// True for inputs that the user named and for those with a video suffix.
bool is_clip_by_name(const pipeline::InputList& inputs, std::size_t i) {
  return inputs.origin(i) == pipeline::Origin::kNamed ||
         pipeline::claims_to_be_video(inputs.path(i));
}

pipeline::InputList first_clips(const pipeline::InputList& inputs, std::int64_t limit,
                                const video::ReadOptions& read) {
  pipeline::InputList first;
  first.note_unread_folders(inputs.num_unread_folders());
  std::int64_t num_clips = 0;
  std::size_t i = 0;
  for (; i < inputs.size() && num_clips < limit; ++i) {
    first.add(inputs.path(i), inputs.origin(i), inputs.adapter(i));
    if (is_clip(inputs, i, read)) ++num_clips;
  }
  if (i < inputs.size()) {
    const auto num_behind = std::ssize(inputs) - static_cast<std::int64_t>(i);
    log_info("run", "--limit " + std::to_string(limit) + ": " + counted(num_clips, "clip") +
                        " taken, " + counted(num_behind, "file") + " behind left out");
  }
  return first;
}

// Throws Error(kUsage) when no file is a clip, before anything is written.
void require_clip(const std::vector<std::string>& paths, const pipeline::FoundVideos& found,
                  const video::ReadOptions& read) {
  const pipeline::InputList& inputs = found.inputs;
  // Checks all names first, because opening files takes longer.
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (is_clip_by_name(inputs, i)) return;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (is_clip(inputs, i, read)) return;
  }
  std::string why = "run: no file in what was given; name videos or folders of them";
  if (paths.size() == 1 && paths.front() == "-") {
    why = "run: the list of paths on standard input is empty";
  }
  if (!inputs.empty()) {
    why = "run: found " + counted(std::ssize(inputs), "file") +
          " and no video; name videos or folders of them";
  }
  const std::string filtered = pipeline::describe_filtered(found);
  if (!filtered.empty()) {
    why = (inputs.empty() ? "run: no file is left: " : "run: no video is left: ") + filtered +
          "; a pattern without a / is for names, one with a / for the path below a folder given";
  }
  const std::string hidden = pipeline::describe_hidden(found);
  throw Error(ErrorCode::kUsage, why + (hidden.empty() ? "" : "; " + hidden));
}

}  // namespace

void add_input_flags(CLI::App& command, InputFlags& flags) {
  constexpr const char* kGroup = "Input";
  command
      .add_option(
          "videos", flags.paths,
          "videos, folders (walked whole), or - for paths on stdin\n"
          "In folders only files that look like videos are taken, and the others are "
          "counted. With - the paths come from standard input, one per line; lines may end "
          "in CR LF. A line may be JSON: {\"video\": PATH, \"adapter\": NAME of --adapter}; a file "
          "whose name begins with {\" or {} is written ./{...")
      ->type_name(kPathType)
      ->group(kGroup)
      ->required();
  command.add_flag("-0", flags.null_separated, "paths of - end in NUL bytes, as find -print0")
      ->group(kGroup);
  command
      .add_option("--include", flags.include,
                  "only files that match; may be repeated\n"
                  "A pattern as of the shell (* ? [a-z]; * matches / too, and **/ also no "
                  "folder): without a / for the name of the file or of a folder it is in, with "
                  "a / for the path below the folder given. Files named on the command line or in "
                  "a list are filtered as well, by their names and the paths given.")
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("GLOB")
      ->group(kGroup);
  command
      .add_option("--exclude", flags.exclude,
                  "no file that matches; may be repeated\n"
                  "It counts more than --include.")
      ->take_all()
      ->allow_extra_args(false)
      ->type_name("GLOB")
      ->group(kGroup);
  command
      .add_option("--limit", flags.limit,
                  "only the first N clips; those with records count\n"
                  "In the order of the walk, after --include and --exclude.")
      ->check(in_range(std::int64_t{1}, std::int64_t{1'000'000'000}).description(""))
      ->type_name(kNumberType)
      ->group(kGroup);
}

pipeline::InputList find_inputs(const InputFlags& flags, const video::ReadOptions& read,
                                const std::vector<std::string>& adapters) {
  const bool has_list = std::find(flags.paths.begin(), flags.paths.end(), "-") != flags.paths.end();
  if (flags.null_separated && !has_list) {
    log_warning("run",
                "-0 has no effect without - in the place of the videos, the list of paths on "
                "standard input");
  }
  const pipeline::PathFilter filter(flags.include, flags.exclude);
  pipeline::FoundVideos found =
      pipeline::find_videos(flags.paths,
                            {.descriptor = STDIN_FILENO,
                             .separator = flags.null_separated ? '\0' : '\n',
                             .adapters = adapters},
                            filter, read.cancelled);
  for (const std::string& skipped : pipeline::describe_skipped(found)) log_warning("run", skipped);
  require_clip(flags.paths, found, read);
  const std::string hidden = pipeline::describe_hidden(found);
  if (!hidden.empty()) log_detail("run", hidden);
  const std::string filtered = pipeline::describe_filtered(found);
  if (!filtered.empty()) log_info("run", filtered);
  if (flags.limit == 0) return std::move(found.inputs);
  return first_clips(found.inputs, flags.limit, read);
}

bool is_clip(const pipeline::InputList& inputs, std::size_t i, const video::ReadOptions& read) {
  if (is_clip_by_name(inputs, i)) return true;
  try {
    video::require_video(OpenFile(std::string(inputs.path(i))), read);
    return true;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    return error.code() != ErrorCode::kNotVideo && error.code() != ErrorCode::kNoVideoStream;
  }
}

}  // namespace caption::cli
