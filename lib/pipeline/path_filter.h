// pipeline/path_filter.h: selects files by globs over their paths.
//
// The glob syntax is that of fnmatch(3): * (any characters, including /), ?, [a-z] (by code
// points), [!a-z], and a backslash before a literal character. Matching is case-sensitive, and a
// leading dot is an ordinary character. ? and [...] match one UTF-8 character. Globs and paths are
// compared in NFC (macOS writes names in NFD); a path that is not UTF-8 is compared unchanged.
//
// A glob without a slash is matched against the file's name and against the name of each folder
// below the walked folder; matching a folder matches everything in it. A glob with a slash is
// matched against the path below the walked folder and against each leading folder of that path. A
// trailing slash restricts the glob to folders; a leading slash only makes it a glob with a slash.
// For a file that the user named, the path is the one given, and globs without a slash match only
// its file name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caption::pipeline {

// Immutable; thread-safe.
class PathFilter {
 public:
  PathFilter() = default;  // accepts every file
  // A file passes when some glob of `include` matches it, or `include` is empty, and no glob of
  // `exclude` does. Throws Error(kUsage) for an empty glob.
  PathFilter(const std::vector<std::string>& include, const std::vector<std::string>& exclude);

  // Returns the options that gave globs: "--include", "--exclude" or "--include and --exclude".
  std::string options() const;
  bool empty() const { return include_.empty() && exclude_.empty(); }
  // `path` is relative to the walked folder and has no leading slash.
  bool passes(std::string_view path) const;
  // As passes(), for a file that the user named; `path` is the path as given.
  bool passes_named(std::string_view path) const;
  // Whether no file in this folder, given relative to the walked folder, can pass.
  bool excludes_folder(std::string_view path) const;

 private:
  struct Glob {
    std::string pattern;  // without leading and trailing slashes
    bool has_slash = false;
    bool is_for_folders = false;
  };
  enum class Kind { kFile, kFolder };

  static std::vector<Glob> parse(const char* option, const std::vector<std::string>& globs);
  static bool matches(const Glob& glob, std::string_view path, Kind kind);
  static bool matches_one(const std::vector<Glob>& globs, std::string_view path, Kind kind);
  static bool matches_named(const std::vector<Glob>& globs, std::string_view path);

  std::vector<Glob> include_;
  std::vector<Glob> exclude_;
};

}  // namespace caption::pipeline
