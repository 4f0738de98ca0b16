#include "base/counted.h"

#include <doctest/doctest.h>

namespace caption {
namespace {

TEST_SUITE("base/counted") {
  TEST_CASE("one is one, everything else is several") {
    CHECK(counted(0, "clip") == "0 clips");
    CHECK(counted(1, "clip") == "1 clip");
    CHECK(counted(2, "clip") == "2 clips");
    CHECK(counted(-1, "clip") == "-1 clips");
    CHECK(counted(1, "entry", "entries") == "1 entry");
    CHECK(counted(12, "entry", "entries") == "12 entries");
    CHECK(counted(std::string("1"), "clip/s", "clips/s") == "1 clip/s");
    CHECK(counted(std::string("1.5"), "clip/s", "clips/s") == "1.5 clips/s");
    CHECK(counted(std::string("0.8"), "sequence") == "0.8 sequences");
    CHECK(plural(1, "is", "are") == "is");
    CHECK(plural(0, "is", "are") == "are");
  }
}

}  // namespace
}  // namespace caption
