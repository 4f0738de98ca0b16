#include "doctor/system_facts.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

namespace caption::doctor {
namespace {

namespace fs = std::filesystem;

TEST_SUITE("doctor/system_facts") {
  TEST_CASE("a folder that is not there is judged by the nearest one above it") {
    const FolderFacts facts = examine_folder(fs::path(CAPTION_TEST_TMP) / "not/yet/there");
    CHECK(facts.is_usable);
    CHECK(facts.free_bytes > 0);
    CHECK_FALSE(fs::exists(fs::path(CAPTION_TEST_TMP) / "not"));
  }

  TEST_CASE("below a file there can be no folder") {
    const fs::path file = fs::path(CAPTION_TEST_TMP) / "a_file";
    std::ofstream(file) << "text";
    CHECK_FALSE(examine_folder(file / "folder").is_usable);
    CHECK_FALSE(examine_folder({}).is_usable);
  }

  TEST_CASE("a folder is usable where one can be made, whatever its permissions say") {
    CHECK_FALSE(examine_folder("/proc/no/cache").is_usable);
    CHECK_FALSE(examine_folder("/proc").is_usable);
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "a_folder";
    fs::remove_all(folder);
    fs::create_directory(folder);
    CHECK(examine_folder(folder).is_usable);
    CHECK(examine_folder(folder / "missing/one").is_usable);
    CHECK(fs::is_empty(folder));
  }

  TEST_CASE("the limit of open files is that of this process") {
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_cur != RLIM_INFINITY) {
      CHECK(open_file_limit() == static_cast<std::int64_t>(limit.rlim_cur));
    }
    CHECK(open_file_limit() > 0);
  }

  TEST_CASE("memory and CPUs are counted") {
    CHECK(available_memory_bytes() > 0);
    CHECK(count_online_cpus() >= 1);
  }
}

}  // namespace
}  // namespace caption::doctor
