// Reads of a mapped file that another process truncates.
#include "base/page_guard.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"

namespace caption {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPageBytes = 65'536;  // a multiple of every page size from 4 to 64 KiB

fs::path write_pages(const std::string& name, std::size_t num_pages) {
  const fs::path path = fs::path(CAPTION_TEST_TMP) / name;
  std::ofstream(path, std::ios::binary) << std::string(num_pages * kPageBytes - 10, 'k');
  return path;
}

bool is_all(std::span<const std::byte> bytes, char value) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [&](std::byte byte) { return static_cast<char>(byte) == value; });
}

// Runs `act` in a child process and returns its status as waitpid() gives it.
template <class Act>
int status_of_child(Act act) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, STDERR_FILENO);  // hides a sanitizer's report of the expected signal
    act();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_SUITE_BEGIN("base/page_guard");

TEST_CASE("a file that is cut short reads as zeros from there on") {
  const fs::path path = write_pages("cut", 4);
  const MappedFile file(path);
  CHECK_FALSE(file.has_lost_pages());
  fs::resize_file(path, kPageBytes);
  CHECK(is_all(file.bytes().first(kPageBytes), 'k'));
  CHECK_FALSE(file.has_lost_pages());
  CHECK(is_all(file.bytes().subspan(2 * kPageBytes), '\0'));
  CHECK(file.has_lost_pages());
  CHECK(is_all(file.bytes().subspan(kPageBytes), '\0'));
  CHECK(is_all(file.bytes().first(kPageBytes), 'k'));
}

TEST_CASE("only the mapping that was cut short is marked, wherever it moves") {
  const fs::path path = write_pages("cut_moved", 2);
  const MappedFile whole(write_pages("whole", 2));
  MappedFile file(path);
  MappedFile other(write_pages("other", 1));
  std::swap(file, other);
  fs::resize_file(path, 0);
  CHECK(is_all(other.bytes(), '\0'));
  CHECK(other.has_lost_pages());
  CHECK_FALSE(file.has_lost_pages());
  CHECK_FALSE(whole.has_lost_pages());
  CHECK(is_all(whole.bytes(), 'k'));
}

TEST_CASE("a range that was freed guards the next mapping anew") {
  for (int round = 0; round < 3; ++round) {
    const fs::path path = write_pages("again", 2);
    const MappedFile file(path);
    CHECK_FALSE(file.has_lost_pages());
    fs::resize_file(path, 0);
    CHECK(is_all(file.bytes(), '\0'));
    CHECK(file.has_lost_pages());
  }
}

TEST_CASE("many mappings are guarded at once, and many threads may read one") {
  std::vector<MappedFile> files;
  const fs::path path = write_pages("many", 3);
  for (int i = 0; i < 150; ++i) files.emplace_back(path);
  fs::resize_file(path, 0);
  std::vector<std::thread> threads;
  std::vector<int> was_zero(4, 0);
  for (std::size_t i = 0; i < was_zero.size(); ++i) {
    threads.emplace_back([&, i] { was_zero[i] = is_all(files.back().bytes(), '\0') ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(std::count(was_zero.begin(), was_zero.end(), 1) == 4);
  CHECK(files.back().has_lost_pages());
  CHECK_FALSE(files.front().has_lost_pages());
}

TEST_CASE("SIGBUS elsewhere still ends the process") {
  const MappedFile guarded(write_pages("guarded", 1));  // installs the handler
  const fs::path path = write_pages("unguarded", 1);
  const int by_read = status_of_child([&] {
    const int descriptor = ::open(path.c_str(), O_RDWR);
    const void* const mapped = ::mmap(nullptr, kPageBytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (::ftruncate(descriptor, 0) != 0) return;
    static_cast<void>(*static_cast<const volatile char*>(mapped));
  });
  CHECK(by_read != 0);
  const int by_kill = status_of_child([] { ::raise(SIGBUS); });
  CHECK(by_kill != 0);
}

TEST_CASE("a file that no address space holds is a lack of memory") {
  const int descriptor = ::memfd_create("huge", MFD_CLOEXEC);
  REQUIRE(::ftruncate(descriptor, std::int64_t{1} << 56) == 0);
  try {
    const MappedFile file("/proc/self/fd/" + std::to_string(descriptor));
    FAIL_CHECK("mapped");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kOutOfMemory);
    CHECK(std::string(error.what()).find("cannot map 72057594037927936 bytes") !=
          std::string::npos);
  }
  ::close(descriptor);
}

TEST_SUITE_END();

}  // namespace
}  // namespace caption
