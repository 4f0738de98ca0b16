// Tests the list of clips: every path once, with little memory per path.
#include "pipeline/input_list.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "base/error.h"

namespace caption::pipeline {
namespace {

namespace fs = std::filesystem;
using AddResult = InputList::AddResult;

TEST_SUITE("pipeline/input_list") {
  TEST_CASE("keeps paths, their bytes and their order") {
    InputList list;
    const std::string strange = "line\nbreak\x01\xFF/v.mp4";
    CHECK(list.add("b.mp4", Origin::kNamed) == AddResult::kAdded);
    CHECK(list.add(strange, Origin::kFolderWalk) == AddResult::kAdded);
    const std::string longer(3u << 20, 'x');  // longer than a memory block
    CHECK(list.add(longer, Origin::kNamed) == AddResult::kAdded);
    CHECK(list.add("a.mp4", Origin::kFolderWalk) == AddResult::kAdded);
    REQUIRE(list.size() == 4);
    CHECK(list.path(0) == "b.mp4");
    CHECK(list.path(1) == strange);
    CHECK(list.path(2) == longer);
    CHECK(list.path(3) == "a.mp4");
    CHECK(list.origin(0) == Origin::kNamed);
    CHECK(list.origin(1) == Origin::kFolderWalk);
    CHECK(list.origin(3) == Origin::kFolderWalk);
    CHECK_THROWS_AS(list.add(std::string_view("a\0b", 3), Origin::kNamed), Error);
  }

  TEST_CASE("one spelling is one clip, and no two films are one") {
    const std::string here = fs::current_path().string();
    struct Case {
      std::string first;
      std::string second;
      AddResult second_result;
    };
    const Case kCases[] = {
        {"x/v.mp4", "x/v.mp4", AddResult::kDuplicate},
        {"x/v.mp4", "./x//.//v.mp4", AddResult::kDuplicate},
        {"x/v.mp4", here + "/x/v.mp4", AddResult::kDuplicate},
        {here + "//x/v.mp4", "x/v.mp4", AddResult::kDuplicate},
        {"//a", "/a", AddResult::kDuplicate},
        // Folders that do not exist are not links, over which ".." would lead elsewhere.
        {"x/v.mp4", "x/folder/../v.mp4", AddResult::kDuplicate},
        {"x/../v.mp4", "v.mp4", AddResult::kDuplicate},
        {"v.mp4", "../v.mp4", AddResult::kAdded},
        {"v.mp4", "v.mp4/", AddResult::kAdded},
        {"v.mp4", "V.mp4", AddResult::kAdded},
        {"a/b", "ab", AddResult::kAdded},
        {"a", "/a", AddResult::kAdded},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.first);
      CAPTURE(c.second);
      InputList list;
      CHECK(list.add(c.first, Origin::kNamed) == AddResult::kAdded);
      CHECK(list.add(c.second, Origin::kNamed) == c.second_result);
      CHECK(list.path(0) == c.first);
    }
  }

  TEST_CASE("a million paths of 60 bytes take less than 120 MB, and each is found again") {
    constexpr int kCount = 1'000'000;
    InputList list;
    std::string path = "/archive/of/some/broadcaster/2024/clips/clip_0000000_cut.mp4";
    REQUIRE(path.size() == 60);
    const auto set_number = [&](int number) {
      const std::string digits = std::to_string(10'000'000 + number).substr(1);
      path.replace(path.find("clip_") + 5, 7, digits);
    };
    int num_added = 0;
    for (int i = 0; i < kCount; ++i) {
      set_number(i);
      num_added += list.add(path, Origin::kNamed) == AddResult::kAdded ? 1 : 0;
    }
    CHECK(num_added == kCount);
    CHECK(list.size_bytes() < 120'000'000);
    int num_duplicates = 0;
    for (int i = 0; i < kCount; i += 997) {
      set_number(i);
      num_duplicates += list.add(path, Origin::kNamed) == AddResult::kDuplicate ? 1 : 0;
      if (list.path(static_cast<std::size_t>(i)) != path)
        FAIL_CHECK("another path is at its place");
    }
    CHECK(num_duplicates == (kCount + 996) / 997);
    CHECK(list.size() == kCount);
  }
}

}  // namespace
}  // namespace caption::pipeline
