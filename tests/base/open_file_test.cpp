#include "base/open_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"

namespace caption {
namespace {

namespace fs = std::filesystem;

fs::path write_file(const std::string& name, const std::string& text) {
  const fs::path path = fs::path(CAPTION_TEST_TMP) / name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

ErrorCode code_of_opening(const fs::path& path) {
  try {
    const OpenFile file(path);
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::kInternal;
}

TEST_SUITE_BEGIN("base/open_file");

TEST_CASE("a link is there wherever it leads, and reading it says what is wrong") {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "links";
  fs::remove_all(folder);
  fs::create_directories(folder);
  fs::create_symlink("gone", folder / "dangling");
  fs::create_symlink("loop", folder / "loop");
  const fs::path long_name = folder / std::string(300, 'n');
  CHECK_FALSE(is_present(folder / "gone"));
  CHECK_FALSE(is_present(folder / "gone" / "file"));
  CHECK(is_present(folder));
  CHECK(is_present(folder / "dangling"));
  CHECK(is_present(folder / "loop"));
  CHECK(is_present(long_name));
  CHECK(code_of_opening(folder / "dangling") == ErrorCode::kNotFound);
  CHECK(code_of_opening(folder / "loop") == ErrorCode::kUnreadable);
  CHECK(code_of_opening(long_name) == ErrorCode::kUnreadable);
}

TEST_CASE("hashes the whole content") {
  const std::string text(1'000'003, 'k');
  const OpenFile file(write_file("whole.bin", text));
  CHECK(file.size_bytes() == 1'000'003);
  CHECK(file.sha256() == sha256_of(text));
}

TEST_CASE("goes on reading the file it opened when another takes its name") {
  const fs::path path = write_file("swapped.bin", "first");
  const OpenFile file(path);
  fs::rename(write_file("other.bin", "second"), path);
  CHECK(file.sha256() == sha256_of(std::string_view("first")));
  CHECK(stamp_of(path)->inode != file.stamp().inode);
}

TEST_CASE("a stamp changes with the bytes, even when size and time are put back") {
  const fs::path path = write_file("stamped.bin", "AAAA");
  const OpenFile file(path);
  ::usleep(20'000);  // inode times advance once per timer tick, at most every 10 ms
  const int descriptor = ::open(path.c_str(), O_WRONLY);
  REQUIRE(::pwrite(descriptor, "B", 1, 0) == 1);
  const timespec then{file.stamp().modified_ns / 1'000'000'000,
                      file.stamp().modified_ns % 1'000'000'000};
  const timespec times[2] = {then, then};
  REQUIRE(::futimens(descriptor, times) == 0);
  ::close(descriptor);
  const FileStamp now = file.stamp_now();
  CHECK(now.size_bytes == file.stamp().size_bytes);
  CHECK(now.modified_ns == file.stamp().modified_ns);
  CHECK(now != file.stamp());
}

TEST_CASE("refuses what is no regular file, without waiting") {
  CHECK(code_of_opening("/nonexistent/file") == ErrorCode::kNotFound);
  CHECK(code_of_opening(CAPTION_TEST_TMP) == ErrorCode::kNotRegularFile);
  CHECK(code_of_opening("/dev/null") == ErrorCode::kNotRegularFile);
  const fs::path fifo = fs::path(CAPTION_TEST_TMP) / "fifo";
  fs::remove(fifo);
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(code_of_opening(fifo) == ErrorCode::kNotRegularFile);
}

TEST_CASE("stops when it is cancelled") {
  const OpenFile file(write_file("cancelled.bin", "text"));
  const std::atomic<bool> cancelled{true};
  CHECK_THROWS_AS(file.sha256(&cancelled), Error);
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption
