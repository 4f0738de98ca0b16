// pipeline/path_filter.h: which of the files that a run finds are meant, by globs over their paths.
//
// A glob is one of fnmatch(3): * (any characters, / too), ?, [a-z], [!a-z], and a backslash before
// a character that stands for itself. Upper and lower case are told apart; a name's leading dot is
// a character like any other. ? and [...] stand for one UTF-8 character. Globs and paths are
// compared in NFC (macOS writes names in NFD); a path that is no UTF-8 is compared as it is.
//
// Without a slash a glob is matched against the file's name, and against the name of each folder
// below the one that is walked: a folder's name stands for everything in it. With a slash it is
// matched against the path below the walked folder, and against the folders that it begins with. A
// slash at the end says that it is meant for folders only; one at the begin changes nothing else.
// Of a file that is named itself, the path is the one given, and only the file's own name is
// matched by globs without a slash.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace caption::pipeline {

// Immutable; thread-safe.
class PathFilter {
 public:
  PathFilter() = default;  // everything passes
  // A file passes when one of `include` matches it, or there is none, and none of `exclude` does.
  // Throws Error(kUsage) for an empty glob.
  PathFilter(const std::vector<std::string>& include, const std::vector<std::string>& exclude);

  // The options whose globs it has: "--include", "--exclude" or both with " and " between them.
  std::string options() const;
  bool empty() const { return include_.empty() && exclude_.empty(); }
  // `path`: below the walked folder, without a slash at its begin.
  bool passes(std::string_view path) const;
  // Of a file that the user named, by its path as given.
  bool passes_named(std::string_view path) const;
  // Whether nothing in this folder below the walked one can pass.
  bool excludes_folder(std::string_view path) const;

 private:
  struct Glob {
    std::string pattern;  // without slashes at its ends
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
