// Tests lists of paths from Windows, from find -print0, and malformed ones.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "pipeline/find_videos.h"

namespace caption::pipeline {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

using Paths = std::vector<std::string>;

// A file that contains the given bytes as a list of paths.
class ListFile {
 public:
  explicit ListFile(const std::string& bytes) : file_(std::tmpfile()) {
    std::fwrite(bytes.data(), 1, bytes.size(), file_);
    std::rewind(file_);
  }
  ~ListFile() { std::fclose(file_); }
  ListFile(const ListFile&) = delete;
  ListFile& operator=(const ListFile&) = delete;

  PathList list(char separator) const {
    return {.descriptor = ::fileno(file_), .separator = separator};
  }

 private:
  std::FILE* file_;
};

Paths read(const std::string& bytes, char separator = '\n') {
  const ListFile file(bytes);
  Paths paths;
  read_path_list(file.list(separator),
                 [&](std::string_view path, std::int64_t) { paths.emplace_back(path); });
  return paths;
}

std::string refusal(const std::string& bytes, char separator = '\n') {
  try {
    read(bytes, separator);
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUsage);
    return error.what();
  }
}

TEST_SUITE("pipeline/path_list") {
  TEST_CASE("lines may end as on Windows, and begin with a byte order mark") {
    CHECK(read("a.mp4\nb.mp4\n") == Paths{"a.mp4", "b.mp4"});
    CHECK(read("a.mp4\r\nb.mp4\r\n") == Paths{"a.mp4", "b.mp4"});
    CHECK(read("\xEF\xBB\xBF"
               "a.mp4\r\n\r\nb.mp4") == Paths{"a.mp4", "b.mp4"});
    CHECK(read("a.mp4\n\xEF\xBB\xBF"
               "b.mp4\n") == Paths{"a.mp4",
                                   "\xEF\xBB\xBF"
                                   "b.mp4"});
    CHECK(read(" a .mp4 \n\x01\xFF\n") == Paths{" a .mp4 ", "\x01\xFF"});
    CHECK(read("").empty());
    CHECK(read("\r\n\n").empty());
    CHECK(read("a\n \t\n  \r\nb\n") == Paths{"a", "b"});
    CHECK(read(" \0"s, '\0') == Paths{" "});
  }

  TEST_CASE("paths come with the numbers of their lines") {
    const ListFile file("a\n\r\nb\n\nc");
    std::vector<std::int64_t> numbers;
    read_path_list(file.list('\n'),
                   [&](std::string_view, std::int64_t number) { numbers.push_back(number); });
    CHECK(numbers == std::vector<std::int64_t>{1, 3, 5});
  }

  TEST_CASE("paths before NUL bytes stay as they are") {
    CHECK(read("a\nb.mp4\0c.mp4\r\0"s, '\0') == Paths{"a\nb.mp4", "c.mp4\r"});
    CHECK(read("\xEF\xBB\xBF"
               "a.mp4\0\0b.mp4"s,
               '\0') == Paths{"\xEF\xBB\xBF"
                              "a.mp4",
                              "b.mp4"});
  }

  TEST_CASE("a path longer than what is read at a time stays whole") {
    const std::string name(100'000, 'n');
    CHECK(read("a\n" + name + "\nb\n") == Paths{"a", name, "b"});
  }

  TEST_CASE("what is no list of lines is refused at its line") {
    CHECK(refusal("a.mp4\nb.mp4\0c.mp4\0"s).find("line 2 holds a NUL byte; -0") !=
          std::string::npos);
    CHECK(refusal("\xFF\xFE"
                  "a\0.\0m\0\n\0"s)
              .find("UTF-16") != std::string::npos);
    CHECK(refusal("a.mp4\nb.mp4\n", '\0').find("leave out -0") != std::string::npos);
    CHECK(refusal("a\n" + std::string(2u << 20, 'x')).find("line 2 has more than 1 MiB") !=
          std::string::npos);
  }

  TEST_CASE("a list that cannot be read to its end is no short list") {
    int closed = ::dup(0);
    REQUIRE(closed >= 0);
    ::close(closed);
    CHECK_THROWS_WITH_AS(
        read_path_list({.descriptor = closed}, [](std::string_view, std::int64_t) {}),
        doctest::Contains("standard input: cannot read the list of paths"), Error);
    const int folder = ::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    try {
      read_path_list({.descriptor = folder}, [](std::string_view, std::int64_t) {});
      FAIL("a folder was read as a list");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kUsage);
    }
    ::close(folder);
  }

  TEST_CASE("a run that is interrupted does not wait for the end of its list") {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    std::string path;
    std::atomic<bool> cancelled{false};
    // Nobody closes the other end: without the flag this would wait for ever.
    REQUIRE(::write(ends[1], "a.mp4\nb", 7) == 7);
    const auto read_all = [&] {
      read_path_list(
          {.descriptor = ends[0]},
          [&](std::string_view line, std::int64_t) {
            path = line;
            cancelled = true;
          },
          &cancelled);
    };
    try {
      read_all();
      FAIL("a list without an end was read");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kCancelled);
      CHECK(std::string(error.what()).find("standard input: interrupted") == 0);
    }
    CHECK(path == "a.mp4");
    ::close(ends[0]);
    ::close(ends[1]);
  }

  TEST_CASE("\"-\" stands for the list, at its place among the arguments") {
    const ListFile file("two.mp4\r\nmissing.mp4\r\n");
    const std::string first = (fs::path(CAPTION_TEST_TMP) / "list_first.mp4").string();
    const std::string last = (fs::path(CAPTION_TEST_TMP) / "list_last.mp4").string();
    std::ofstream(first) << "x";
    std::ofstream(last) << "x";
    const FoundVideos found = find_videos({first, "-", last}, file.list('\n'));
    REQUIRE(found.inputs.size() == 4);
    CHECK(found.inputs.path(0) == first);
    CHECK(found.inputs.path(1) == "two.mp4");
    CHECK(found.inputs.path(2) == "missing.mp4");
    CHECK(found.inputs.origin(2) == Origin::kNamed);
    CHECK(found.inputs.path(3) == last);
  }
}

}  // namespace
}  // namespace caption::pipeline
