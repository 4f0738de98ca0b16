// pipeline/find_videos.h: expands the paths that the user named to the list of clips.
#pragma once

#include <array>
#include <atomic>
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

// Why a visible entry of a walked folder is not a clip.
enum class SkipReason {
  kDanglingLink,  // a link whose target does not exist
  kSpecialFile,   // a FIFO, socket or device, or a link to one
  kUnreadable,    // a folder that cannot be read; InputList counts it as well
  kCycle,         // a linked folder that contains the link
  kManyNames,     // a folder that was already walked kMaxWalksOfFolder times through links
};
inline constexpr std::size_t kNumSkipReasons = 5;
// Limit on the walks of one folder, because links among n folders make up to n! paths.
inline constexpr int kMaxWalksOfFolder = 64;

struct Skipped {
  std::int64_t count = 0;
  std::vector<std::string> first_paths;  // at most 3; at most 100 if folders are unreadable
};

struct FoundVideos {
  InputList inputs;  // in the order named; the contents of a folder are sorted by name
  // Paths already in the list under the same spelling (input_list.h).
  std::int64_t num_duplicates = 0;
  std::array<Skipped, kNumSkipReasons> skipped;  // indexed by SkipReason
  // Files that the filter excluded. A folder that is excluded as a whole is not walked and counts
  // once.
  Skipped filtered;
  std::string filtered_by;             // PathFilter::options()
  std::int64_t num_hidden = 0;         // hidden files and folders (".name") in walked folders
  std::vector<int> unreadable_errors;  // errno of each of skipped_for(kUnreadable).first_paths

  const Skipped& skipped_for(SkipReason reason) const {
    return skipped[static_cast<std::size_t>(reason)];
  }
};

// Returns one sentence for duplicates, one for each folder that could not be read, and one for each
// other reason with entries: count, reason and up to 3 names.
std::vector<std::string> describe_skipped(const FoundVideos& found);
// "3 files or folders were left out by --include: a.mkv, b.mkv, c.mkv"; empty when none was.
std::string describe_filtered(const FoundVideos& found);
// "2 hidden files or folders were left out"; empty when there was none.
std::string describe_hidden(const FoundVideos& found);

// The source of the paths of the argument "-".
struct PathList {
  int descriptor = 0;                   // file descriptor, borrowed
  char separator = '\n';                // '\n' or NUL
  std::string name = "standard input";  // for messages
  // Names of the adapters that a line may choose; the index is InputList::adapter().
  std::vector<std::string> adapters = {};
};

// Each of `arguments` is a video, a folder, or "-" for the list. Folders are walked recursively,
// linked folders under each of their names. Hidden files and folders (".name") and the entries
// counted in `skipped` are left out; every other file is checked when it is opened. A folder that
// cannot be read is not a clip: it is counted here and in FoundVideos::inputs. A path that cannot
// be examined, or a listed path that does not exist, becomes an input, so that it gets a failed
// record. A listed path with a video suffix is not examined here, because it is not a folder.
//
// A line of the list that begins with {" or {}, after white space if there is any, is a JSON
// object: {"video": PATH, "adapter": NAME}. NAME is the adapter of the clip's captions, or of all
// clips of a folder. A file whose name begins so can be listed as "./{...". A line that is a JSON
// list is an error.
//
// `filter` applies to every file, also to those named or listed. Folders that the user named are
// walked whatever their name.
//
// Throws Error(kUsage) for arguments that do not exist, before the list is read, for a JSON line
// that is wrong or names an unknown adapter, for a path with two adapters, and as read_path_list();
// Error(kCancelled) soon after `cancelled` (may be null) has become true.
FoundVideos find_videos(const std::vector<std::string>& arguments, const PathList& list = {},
                        const PathFilter& filter = {},
                        const std::atomic<bool>* cancelled = nullptr);

// Calls visit(path, number) for every path of the list except empty ones and, in lines, those
// of blanks; the number is that of its line, from 1 on. With '\n', lines may end in CRLF and a
// UTF-8 byte order mark before the first path is removed; with NUL the bytes are unchanged. Throws
// Error: kUsage for a NUL in a list of lines or for a path over 1 MiB; when the list cannot be
// read, kOutOfMemory if that is the reason and kUsage otherwise; kCancelled soon after `cancelled`
// (may be null) has become true, also while nothing is written to the list.
void read_path_list(const PathList& list,
                    const std::function<void(std::string_view, std::int64_t)>& visit,
                    const std::atomic<bool>* cancelled = nullptr);

// Whether the name has a video suffix (".mp4", ".mkv", ...). Such a file in a folder always gets a
// record.
bool claims_to_be_video(std::string_view path);

}  // namespace caption::pipeline
