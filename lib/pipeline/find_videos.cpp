#include "pipeline/find_videos.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <unordered_set>

namespace caption::pipeline {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 18> kVideoSuffixes = {
    ".mp4", ".m4v",  ".mov", ".mkv", ".webm", ".avi", ".ts",  ".mts", ".m2ts",
    ".mpg", ".mpeg", ".wmv", ".flv", ".3gp",  ".ogv", ".vob", ".mxf", ".divx"};

// One clip under two spellings is one clip; a link to it is another.
std::string identity(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  return (error ? fs::path(path) : absolute).lexically_normal().string();
}

class Finder {
 public:
  void add(const std::string& path, Origin origin) {
    if (seen_.insert(identity(path)).second) {
      found_.inputs.push_back({.path = path, .origin = origin});
    } else {
      ++found_.num_duplicates;
    }
  }

  void walk(const fs::path& folder) {
    std::error_code error;
    std::vector<fs::directory_entry> entries;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      entries.push_back(*it);
    }
    if (error) return add(folder.string(), Origin::kNamed);
    std::sort(entries.begin(), entries.end());
    for (const fs::directory_entry& entry : entries) {
      if (entry.path().filename().string().starts_with(".")) continue;
      std::error_code status_error;
      if (entry.is_directory(status_error)) {
        if (!entry.is_symlink(status_error)) walk(entry.path());
      } else if (entry.is_regular_file(status_error)) {
        add(entry.path().string(), Origin::kFolderWalk);
      }
    }
  }

  FoundVideos take() { return std::move(found_); }

 private:
  FoundVideos found_;
  std::unordered_set<std::string> seen_;
};

}  // namespace

bool claims_to_be_video(const std::string& path) {
  std::string suffix = fs::path(path).extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return std::find(kVideoSuffixes.begin(), kVideoSuffixes.end(), suffix) != kVideoSuffixes.end();
}

FoundVideos find_videos(const std::vector<std::string>& paths) {
  Finder finder;
  for (const std::string& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      finder.walk(path);
    } else {
      finder.add(path, Origin::kNamed);
    }
  }
  return finder.take();
}

}  // namespace caption::pipeline
