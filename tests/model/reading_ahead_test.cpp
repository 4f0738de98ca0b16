// Tests the thread that reads tensors ahead by what the system holds of a file in its page cache.
#include "model/internal/reading_ahead.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/mapped_file.h"

namespace caption::model {
namespace {

namespace fs = std::filesystem;

using Tensors = std::vector<std::vector<std::span<const std::byte>>>;

constexpr std::size_t kMiB = std::size_t{1} << 20;

// A file of zeros that nobody has read, without blocks on the disk.
MappedFile make_file(const char* name, std::size_t size_bytes) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "reading_ahead";
  fs::create_directories(folder);
  fs::remove(folder / name);
  std::ofstream(folder / name, std::ios::binary) << "";
  fs::resize_file(folder / name, size_bytes);
  return MappedFile(folder / name);
}

// Whether the page cache has all pages of `bytes`, which begin with a page.
bool is_cached(std::span<const std::byte> bytes) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((bytes.size() + page_bytes - 1) / page_bytes);
  REQUIRE(::mincore(const_cast<std::byte*>(bytes.data()), bytes.size(), pages.data()) == 0);
  for (const unsigned char page : pages) {
    if ((page & 1u) == 0) return false;
  }
  return true;
}

bool waits_for_pages() {
  const MappedFile file = make_file("probe", kMiB);
  constexpr int kPopulateRead = 22;
  if (::madvise(const_cast<std::byte*>(file.bytes().data()), kMiB, kPopulateRead) == 0) return true;
  MESSAGE("skipped: this kernel reads pages only when they are accessed (MADV_POPULATE_READ: "
          << errno << ")");
  return false;
}

TEST_SUITE("model/reading_ahead") {
  TEST_CASE("tensors are read in the order of use, and not far beyond the one in use") {
    if (!waits_for_pages()) return;
    constexpr std::size_t kAhead = ReadingAhead::kAheadBytes;
    // The system may read some megabytes more than it is asked for.
    constexpr std::size_t kFar = 64 * kMiB;
    const MappedFile file = make_file("tensors", 4 * kMiB + kAhead + kFar + kMiB);
    const std::span<const std::byte> bytes = file.bytes();
    // The first tensor has two parts, the second none.
    const Tensors tensors = {{bytes.subspan(kMiB, 3 * kMiB), bytes.first(kMiB)},
                             {},
                             {bytes.subspan(4 * kMiB, kAhead + kFar)},
                             {bytes.last(kMiB)}};
    ReadingAhead ahead(tensors);
    ahead.wait();
    CHECK_FALSE(is_cached(bytes.first(4 * kMiB)));
    ahead.keep_ahead_of(0);
    ahead.wait();
    CHECK(is_cached(bytes.first(4 * kMiB + kAhead)));
    CHECK_FALSE(is_cached(bytes.last(kMiB)));
    ahead.keep_ahead_of(1);
    ahead.wait();
    CHECK_FALSE(is_cached(bytes.last(kMiB)));
    ahead.keep_ahead_of(2);
    ahead.wait();
    CHECK(is_cached(bytes));
    ahead.keep_ahead_of(3);
    ahead.wait();
  }

  TEST_CASE("it may end before all is read, and begin with nothing to read") {
    const MappedFile file = make_file("ended", 8 * kMiB);
    {
      ReadingAhead ahead({{file.bytes()}});
      ahead.keep_ahead_of(0);
    }
    { const ReadingAhead unused({{file.bytes()}}); }
    ReadingAhead ahead({{}, {}});
    ahead.keep_ahead_of(0);
    ahead.keep_ahead_of(1);
    ahead.wait();
  }
}

}  // namespace
}  // namespace caption::model
