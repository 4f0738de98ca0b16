// pipeline/find_videos.h: from what the user named to the list of clips.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "pipeline/input_list.h"
#include "pipeline/path_filter.h"

namespace caption::pipeline {

// Why an entry of a walked folder is no clip, though it is neither hidden nor a regular file.
enum class SkipReason {
  kDanglingLink,  // a link whose target does not exist
  kSpecialFile,   // a FIFO, socket or device, or a link to one
  kUnreadable,    // a folder, counted by the list as well
  kCycle,         // a linked folder that holds the link itself
  kManyNames,     // a folder that links have led into kMaxWalksOfFolder times before
};
inline constexpr std::size_t kNumSkipReasons = 5;
// Links among n folders make up to n! paths; so often each of them is walked.
inline constexpr int kMaxWalksOfFolder = 64;

struct Skipped {
  std::int64_t count = 0;
  std::vector<std::string> first_paths;  // at most 3; of unreadable folders at most 100
};

struct FoundVideos {
  InputList inputs;                 // in the order named; folders sorted by name
  std::int64_t num_duplicates = 0;  // paths that are in the list already, spelled alike
  std::array<Skipped, kNumSkipReasons> skipped;  // by SkipReason
  // Files that the filter left out; a folder that it leaves out whole is not walked and counts
  // once.
  Skipped filtered;
  std::string filtered_by;             // PathFilter::options()
  std::int64_t num_hidden = 0;         // files and folders (".name") in walked folders
  std::vector<int> unreadable_errors;  // errno of each of skipped_for(kUnreadable).first_paths

  const Skipped& skipped_for(SkipReason reason) const {
    return skipped[static_cast<std::size_t>(reason)];
  }
};

// One sentence for duplicates, for each folder that could not be read, and for each other reason
// with entries: count, reason, up to 3 names.
std::vector<std::string> describe_skipped(const FoundVideos& found);
// "3 files or folders were left out by --include: a.mkv, b.mkv, c.mkv"; empty when none was.
std::string describe_filtered(const FoundVideos& found);
// "2 hidden files or folders were left out"; empty when there was none.
std::string describe_hidden(const FoundVideos& found);

// Where the argument "-" takes its paths from.
struct PathList {
  int descriptor = 0;                   // borrowed
  char separator = '\n';                // or NUL
  std::string name = "standard input";  // for messages
};

// Each of `arguments` is a video, a folder, or "-" for the list. Folders are walked whole, linked
// ones under every name they have; hidden files and folders (".name") are left out, and what is in
// `skipped`. Every other file is judged by its content when it is opened. A folder that cannot be
// read is no clip: it is counted, and FoundVideos::inputs notes it. What cannot be looked at is an
// input, so that it gets a failed record; so is a listed path that does not exist. A listed path
// with a video's suffix is not looked at here: it is no folder.
//
// `filter` decides on every file, those that are named or listed included; folders that the user
// named are walked whatever they are called.
//
// Throws Error(kUsage), before the list is read, for arguments that do not exist; as
// read_path_list().
FoundVideos find_videos(const std::vector<std::string>& arguments, const PathList& list = {},
                        const PathFilter& filter = {});

// Calls visit(path) for every path of the list, empty ones left out. With '\n' the line end may be
// CRLF, and a UTF-8 byte order mark before the first path is taken off; with NUL bytes stay as they
// are. Throws Error(kUsage) for a NUL in a list of lines, and for a path of more than 1 MiB; Error(
// kUsage) when the list cannot be read, Error(kOutOfMemory) where that is the reason.
void read_path_list(const PathList& list, const std::function<void(std::string_view)>& visit);

// Whether the name claims to be a video (".mp4", ".mkv", ...). Such a file in a folder is never
// left out in silence.
bool claims_to_be_video(std::string_view path);

}  // namespace caption::pipeline
