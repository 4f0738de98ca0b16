// A file without a name keeps its bytes and leaves nothing in its folder.
#include "base/temporary_file.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "base/error.h"

namespace caption {
namespace {

namespace fs = std::filesystem;

TEST_SUITE("base/temporary_file") {
  TEST_CASE("bytes are read as they were written, and the folder stays empty") {
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "temporary";
    fs::create_directories(folder);
    TemporaryFile made(folder);
    TemporaryFile file(std::move(made));
    CHECK(fs::is_empty(folder));
    const std::array<std::byte, 3> first = {std::byte{1}, std::byte{2}, std::byte{3}};
    const std::array<std::byte, 2> second = {std::byte{4}, std::byte{5}};
    file.write_at(7, second);  // out of order
    file.write_at(0, first);
    std::array<std::byte, 2> found = {};
    file.read_at(7, found);
    CHECK(found == second);
    file.read_at(1, found);
    CHECK(found == std::array<std::byte, 2>{std::byte{2}, std::byte{3}});
    CHECK_THROWS_WITH_AS(file.read_at(8, found), doctest::Contains("ends at byte 9"), Error);
    CHECK(fs::is_empty(folder));
  }

  TEST_CASE("space that there is not is refused with the folder, and reserving adds no bytes") {
    const TemporaryFile file(fs::path(CAPTION_TEST_TMP));
    file.reserve(0);
    file.reserve(1 << 16);
    std::array<std::byte, 1> found = {};
    CHECK_THROWS_WITH_AS(file.read_at(0, found), doctest::Contains("ends at byte 0"), Error);
    // 4 EiB are more than any file system here holds.
    try {
      file.reserve(std::int64_t{1} << 62);
      MESSAGE("skipped: the file system of " << CAPTION_TEST_TMP << " reserves no space");
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find("cannot reserve 4611686018427387904 bytes") !=
            std::string::npos);
      CHECK(std::string(error.what()).find(CAPTION_TEST_TMP) == 0);
    }
  }

  TEST_CASE("a folder that is not there is named") {
    CHECK_THROWS_WITH_AS(TemporaryFile("/no/such/folder"),
                         doctest::Contains("/no/such/folder: cannot make a temporary file"), Error);
  }
}

}  // namespace
}  // namespace caption
