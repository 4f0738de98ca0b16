// Questions about paths that cannot be examined: answers, not exceptions.
#include "base/paths.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace caption {
namespace {

namespace fs = std::filesystem;

fs::path fresh_folder(const std::string& name) {
  fs::path folder = fs::path(CAPTION_TEST_TMP) / ("paths_" + name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

TEST_SUITE("base/paths") {
  TEST_CASE("a folder is one, and what cannot be examined is none") {
    const fs::path folder = fresh_folder("folder");
    std::ofstream(folder / "file") << "x";
    fs::create_directory_symlink(folder, folder / "link");
    fs::create_symlink("loop", folder / "loop");
    CHECK(is_folder(folder));
    CHECK(is_folder(folder / "link"));
    CHECK_FALSE(is_folder(folder / "file"));
    CHECK_FALSE(is_folder(folder / "file/below"));
    CHECK_FALSE(is_folder(folder / "absent"));
    CHECK_FALSE(is_folder(folder / "loop"));
    CHECK_FALSE(is_folder(std::string(300, 'x')));
  }

  TEST_CASE("paths in a file are relative to its folder, in a FIFO to the working folder") {
    const fs::path folder = fresh_folder("of_file");
    std::ofstream(folder / "file") << "x";
    fs::create_symlink("file", folder / "link");
    REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
    CHECK(folder_of_file(folder / "file") == folder);
    CHECK(folder_of_file(folder / "link") == folder);
    CHECK(folder_of_file(folder / "fifo").empty());
    CHECK(folder_of_file(folder / "absent").empty());
  }

  TEST_CASE("a relative path begins at the working folder while that is there") {
    const fs::path before = fs::current_path();
    const fs::path folder = fs::canonical(fresh_folder("working"));
    fs::current_path(folder);
    CHECK(absolute_path("a/./b/../c.mp4") == folder / "a/c.mp4");
    CHECK(absolute_path("/a/../c.mp4") == "/c.mp4");
    fs::remove(folder);
    CHECK(absolute_path("a/../c.mp4") == "c.mp4");
    CHECK(absolute_path("/a/c.mp4") == "/a/c.mp4");
    fs::current_path(before);
  }

  TEST_CASE("a folder's entries, or the reason why there are none") {
    const fs::path folder = fresh_folder("entries");
    for (const char* const name : {"a", "b"}) std::ofstream(folder / name) << "x";
    std::error_code error;
    std::vector<fs::directory_entry> entries = list_folder(folder, error);
    std::sort(entries.begin(), entries.end());
    REQUIRE(entries.size() == 2);
    CHECK_FALSE(error);
    CHECK(entries[1].path() == folder / "b");
    CHECK(list_folder(folder / "absent", error).empty());
    CHECK(error == std::errc::no_such_file_or_directory);
    CHECK(list_folder(folder / "a", error).empty());
    CHECK(error == std::errc::not_a_directory);
  }
}

}  // namespace
}  // namespace caption
