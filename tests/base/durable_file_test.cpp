// A file is replaced as a whole or not at all, and nothing else in its folder changes.
#include "base/durable_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file_descriptor.h"

namespace caption {
namespace {

namespace fs = std::filesystem;

// An empty folder of the test.
fs::path folder_named(const std::string& name) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "durable" / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

void limit_file_bytes(rlim_t bytes) {
  struct rlimit limit {};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes;
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

TEST_SUITE("base/durable_file") {
  TEST_CASE("a file is replaced with its permissions, and the files beside it stay") {
    const fs::path folder = folder_named("replaced");
    write(folder / "a.json", "old");
    write(folder / "a.json.new", "the user's");
    fs::permissions(folder / "a.json", fs::perms::owner_read | fs::perms::owner_write);
    write_file_atomically(folder / "a.json", "new text");
    CHECK(read(folder / "a.json") == "new text");
    CHECK(read(folder / "a.json.new") == "the user's");
    CHECK(fs::status(folder / "a.json").permissions() ==
          (fs::perms::owner_read | fs::perms::owner_write));
    const std::string longest(255, 'n');
    write_file_atomically(folder / longest, "x");
    CHECK(names_in(folder) == std::set<std::string>{"a.json", "a.json.new", longest});
  }

  TEST_CASE("a name that an earlier process left is passed over") {
    const fs::path folder = folder_named("left");
    // The numbers of this process's next temporary files are not known here.
    for (int i = 0; i < 300; ++i) {
      write(folder / (std::string(kTemporaryBegin) + std::to_string(::getpid()) + "-" +
                      std::to_string(i)),
            "left");
    }
    write_file_atomically(folder / "a", "text");
    CHECK(read(folder / "a") == "text");
    CHECK(names_in(folder).size() == 301);
  }

  TEST_CASE("a failure leaves the old file and nothing else") {
    const fs::path folder = folder_named("failed");
    write(folder / "a", "old");
    struct rlimit before {};
    ::getrlimit(RLIMIT_FSIZE, &before);
    auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
    limit_file_bytes(4096);
    std::string message;
    try {
      write_file_atomically(folder / "a", std::string(100'000, 'x'));
    } catch (const Error& error) {
      message = error.what();
    }
    limit_file_bytes(before.rlim_cur);
    std::signal(SIGXFSZ, handler);
    CHECK(message.find((folder / "a").string() + ": cannot write: File too large") == 0);
    fs::create_directories(folder / "b" / "below");
    CHECK_THROWS_WITH_AS(write_file_atomically(folder / "b", "text"),
                         doctest::Contains("b: cannot replace the file: "), Error);
    CHECK_THROWS_WITH_AS(write_file_atomically(folder / "none" / "c", "text"),
                         doctest::Contains("c: cannot write: No such file"), Error);
    CHECK(read(folder / "a") == "old");
    CHECK(names_in(folder) == std::set<std::string>{"a", "b"});
  }

  TEST_CASE("a process that is killed while it writes leaves nothing") {
    const fs::path folder = folder_named("killed");
    const FileDescriptor unnamed(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
    if (unnamed.get() < 0) {
      MESSAGE("skipped: the file system of " << CAPTION_TEST_TMP << " makes no unnamed files");
      return;
    }
    write(folder / "a", "old");
    const std::string text(100'000, 'x');
    const std::string path = (folder / "a").string();
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGXFSZ, SIG_DFL);
      limit_file_bytes(4096);
      write_file_atomically(path, text);  // SIGXFSZ ends the process
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGXFSZ);
    CHECK(read(folder / "a") == "old");
    CHECK(names_in(folder) == std::set<std::string>{"a"});
  }

  TEST_CASE("writers of one file leave the text of one of them") {
    const fs::path folder = folder_named("several");
    std::vector<std::thread> writers;
    for (char c = 'a'; c < 'e'; ++c) {
      writers.emplace_back([&folder, c] {
        for (int i = 0; i < 8; ++i) write_file_atomically(folder / "f", std::string(10'000, c));
      });
    }
    for (std::thread& writer : writers) writer.join();
    const std::string text = read(folder / "f");
    REQUIRE(text.size() == 10'000);
    CHECK(text == std::string(10'000, text.front()));
    CHECK(names_in(folder) == std::set<std::string>{"f"});
  }
}

}  // namespace
}  // namespace caption
