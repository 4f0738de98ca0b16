// Case of ASCII letters.
#include "base/ascii.h"

#include <doctest/doctest.h>

namespace caption {
namespace {

TEST_SUITE("base/ascii") {
  TEST_CASE("letters of ASCII alone have a case") {
    CHECK(to_lower_ascii("@AZ[`az{ ÄÉ 하늘 \xC3") == "@az[`az{ ÄÉ 하늘 \xC3");
    CHECK(equal_ignoring_case("OpenGVLab", "opengvlab"));
    CHECK(equal_ignoring_case("", ""));
    CHECK_FALSE(equal_ignoring_case("h100", "h1000"));
    CHECK_FALSE(equal_ignoring_case("@", "`"));
    CHECK_FALSE(equal_ignoring_case("Ä", "ä"));
  }

  TEST_CASE("a text begins with its beginnings") {
    CHECK(starts_with_ignoring_case("OpenGVLab/InternVL3", "opengvlab/"));
    CHECK(starts_with_ignoring_case("a", ""));
    CHECK_FALSE(starts_with_ignoring_case("Open", "opengvlab/"));
  }
}

}  // namespace
}  // namespace caption
