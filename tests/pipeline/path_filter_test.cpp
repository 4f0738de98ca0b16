// Tests --include and --exclude.
#include "pipeline/path_filter.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"

namespace caption::pipeline {
namespace {

TEST_SUITE("pipeline/path_filter") {
  TEST_CASE("a glob is matched against names, or against paths from the walked folder on") {
    struct Case {
      const char* glob;
      const char* path;
      bool matches;
    };
    constexpr Case kCases[] = {
        {"*.mp4", "a.mp4", true},
        {"*.mp4", "day/a.mp4", true},
        {"*.mp4", "a.mkv", false},
        {"*.MP4", "a.mp4", false},
        {"a.mp4", "day/a.mp4", true},
        {"day", "day/a.mp4", true},
        {"day", "far/day/a.mp4", true},
        {"day", "days/a.mp4", false},
        {"day", "day", true},
        {"day/", "day", false},  // "day" is a file here
        {"day/", "day/a.mp4", true},
        {"day/", "far/day/x/a.mp4", true},
        {"day/a.*", "day/a.mp4", true},
        {"day/a.*", "far/day/a.mp4", false},
        {"day/*", "day/x/y/a.mp4", true},
        {"*/a.mp4", "far/day/a.mp4", true},
        {"/day", "day/a.mp4", true},
        {"/day", "far/day/a.mp4", false},
        {"far/day/", "far/day/a.mp4", true},
        {"far/day/", "far/day", false},
        {"[ab]?.mp4", "b1.mp4", true},
        {"[!ab]?.mp4", "b1.mp4", false},
        {"\\*.mp4", "*.mp4", true},
        {"\\*.mp4", "a.mp4", false},
        {"눈?.mp4", "눈길.mp4", true},  // one character, three bytes
        {"*[가-나].mp4", "x각.mp4", true},
        {"*[가-나].mp4", "x다.mp4", false},
        {"[가-힣].mp4", "힣.mp4", true},
        {"[가-힣]*.mp4", "나비.mp4", true},
        {"[가-힣]*.mp4", "日.mp4", false},
        {"[!가-힣]*", "abc", true},
        {"[^가-힣]*", "나비", false},
        {"[a-z가-힣]*", "é", false},
        {"[a-z가-힣]*", "힣", true},
        {"[[:alpha:]]1", "가1", true},
        {"[[:digit:]x]1", "가1", false},
        {"[]a]", "]", true},
        {"[]a]", "b", false},
        {"[a-]", "-", true},
        {"[\\]x]", "]", true},
        {"[가-힣", "[가-힣", true},  // no ] closes it
        {"[가-힣", "가", false},
        {"a*b*c", "a1b2b3c", true},
        {"a*b*c", "a1b2b3", false},
        {"a**", "a", true},
        {"**/a.mp4", "a.mp4", true},
        {"**/a.mp4", "x/y/a.mp4", true},
        {"**/a.mp4", "xa.mp4", false},
        {"x/**/a.mp4", "x/a.mp4", true},
        {"x/**/**/a.mp4", "x/y/z/a.mp4", true},
        {"x/**/a.mp4", "xa.mp4", false},
        {"x**/a.mp4", "xy/a.mp4", true},
        {"*?", "", false},
        {"\\", "\\", true},
        {"?", "\xFF", true},  // a name that is not UTF-8
        {"*.mp4", "\xFF\xFE.mp4", true},
        {"*", "anything/at/all", true},
        // The same syllables composed, as typed, and decomposed, as macOS writes them.
        {"눈길*", "\u1102\u116e\u11ab\u1100\u1175\u11af.mp4", true},
        {"\u1102\u116e\u11ab*", "눈길.mp4", true},
        {"?.mp4", "\u1102\u116e\u11ab.mp4", true},
        {"caf\u00e9/*", "cafe\u0301/a.mp4", true},
    };
    for (const Case& c : kCases) {
      CAPTURE(c.glob);
      CAPTURE(c.path);
      CHECK(PathFilter({c.glob}, {}).passes(c.path) == c.matches);
      CHECK(PathFilter({}, {c.glob}).passes(c.path) == !c.matches);
    }
  }

  TEST_CASE("a file passes that is included and not excluded") {
    CHECK(PathFilter().passes("a.mp4"));
    CHECK(PathFilter().empty());
    const PathFilter filter({"*.mp4", "*.mkv"}, {"old", "b*"});
    CHECK_FALSE(filter.empty());
    CHECK(filter.passes("a.mp4"));
    CHECK(filter.passes("new/a.mkv"));
    CHECK_FALSE(filter.passes("a.avi"));
    CHECK_FALSE(filter.passes("old/a.mp4"));
    CHECK_FALSE(filter.passes("b.mp4"));
    CHECK(filter.excludes_folder("old"));
    CHECK(filter.excludes_folder("x/old"));
    CHECK(filter.excludes_folder("old/x"));
    CHECK_FALSE(filter.excludes_folder("new"));
    CHECK(PathFilter({}, {"old/"}).excludes_folder("old"));
  }

  TEST_CASE("of a named file the name counts, and the path as given") {
    const PathFilter by_name({}, {"old"});
    CHECK(by_name.passes_named("/old/a.mp4"));
    CHECK_FALSE(by_name.passes_named("/archive/old"));
    const PathFilter by_path({"videos/day?/*"}, {});
    CHECK(by_path.passes_named("videos/day1/a.mp4"));
    CHECK(by_path.passes_named("/videos/day1/a.mp4"));
    CHECK_FALSE(by_path.passes_named("a.mp4"));
    CHECK(PathFilter({"*.mp4"}, {}).passes_named("../a.mp4"));
    CHECK(PathFilter({"눈*"}, {}).passes_named("x/\u1102\u116e\u11ab.mp4"));
    CHECK(PathFilter({}, {"눈"}).excludes_folder("x/\u1102\u116e\u11ab"));
  }

  TEST_CASE("it names the options that it was made of") {
    CHECK(PathFilter().options().empty());
    CHECK(PathFilter({"a"}, {}).options() == "--include");
    CHECK(PathFilter({}, {"a"}).options() == "--exclude");
    CHECK(PathFilter({"a"}, {"a"}).options() == "--include and --exclude");
  }

  TEST_CASE("a glob that can match nothing is refused") {
    for (const char* glob : {"", "/", "//"}) {
      CAPTURE(glob);
      CHECK_THROWS_AS(PathFilter({glob}, {}), Error);
      CHECK_THROWS_AS(PathFilter({}, {glob}), Error);
    }
  }
}

}  // namespace
}  // namespace caption::pipeline
