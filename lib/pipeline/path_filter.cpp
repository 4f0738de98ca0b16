#include "pipeline/path_filter.h"

#include <algorithm>

#include "base/error.h"
#include "base/unicode_form.h"
#include "base/utf8.h"
#include "pipeline/internal/glob.h"

namespace caption::pipeline {
namespace {

// Converts to NFC, so that equivalent spellings match; text that is not UTF-8 is unchanged.
std::string normalise(std::string_view text) {
  return is_valid_utf8(text) ? to_nfc(text) : std::string(text);
}

}  // namespace

PathFilter::PathFilter(const std::vector<std::string>& include,
                       const std::vector<std::string>& exclude)
    : include_(parse("--include", include)), exclude_(parse("--exclude", exclude)) {}

std::vector<PathFilter::Glob> PathFilter::parse(const char* option,
                                                const std::vector<std::string>& globs) {
  std::vector<Glob> out;
  for (const std::string& text : globs) {
    const std::size_t begin = text.find_first_not_of('/');
    if (begin == std::string::npos) {
      throw Error(ErrorCode::kUsage, std::string(option) + " \"" + text +
                                         "\": matches no file; give a pattern such as '*.mp4'");
    }
    const std::string pattern =
        normalise(text.substr(begin, text.find_last_not_of('/') + 1 - begin));
    out.push_back({.pattern = pattern,
                   .has_slash = begin > 0 || pattern.find('/') != std::string::npos,
                   .is_for_folders = text.ends_with('/')});
  }
  return out;
}

// Tries the path and each folder that leads to it: as a path from the beginning for a glob with a
// slash, by its name alone for one without.
bool PathFilter::matches(const Glob& glob, std::string_view path, Kind kind) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const bool is_folder = end < path.size() || kind == Kind::kFolder;
    const std::string_view tried =
        glob.has_slash ? path.substr(0, end) : path.substr(begin, end - begin);
    if ((is_folder || !glob.is_for_folders) && matches_glob(glob.pattern, tried)) return true;
    begin = end + 1;
  }
  return false;
}

bool PathFilter::matches_one(const std::vector<Glob>& globs, std::string_view path, Kind kind) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const Glob& glob) { return matches(glob, path, kind); });
}

bool PathFilter::matches_named(const std::vector<Glob>& globs, std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t begin = std::min(path.find_first_not_of('/'), path.size());
  return std::any_of(globs.begin(), globs.end(), [&](const Glob& glob) {
    return matches(glob, glob.has_slash ? path.substr(begin) : name, Kind::kFile);
  });
}

std::string PathFilter::options() const {
  if (include_.empty()) return exclude_.empty() ? "" : "--exclude";
  return exclude_.empty() ? "--include" : "--include and --exclude";
}

bool PathFilter::passes(std::string_view path) const {
  const std::string name = normalise(path);
  if (!include_.empty() && !matches_one(include_, name, Kind::kFile)) return false;
  return !matches_one(exclude_, name, Kind::kFile);
}

bool PathFilter::passes_named(std::string_view path) const {
  const std::string name = normalise(path);
  if (!include_.empty() && !matches_named(include_, name)) return false;
  return !matches_named(exclude_, name);
}

bool PathFilter::excludes_folder(std::string_view path) const {
  return !exclude_.empty() && matches_one(exclude_, normalise(path), Kind::kFolder);
}

}  // namespace caption::pipeline
