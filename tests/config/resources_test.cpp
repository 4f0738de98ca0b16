#include "config/resources.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <vector>

namespace caption::config {
namespace {

namespace fs = std::filesystem;

TEST_SUITE("config/resources") {
  TEST_CASE("an executable of a build tree finds the source tree by the file beside it") {
    const std::vector<fs::path> roots = resource_roots();
    REQUIRE(!roots.empty());
    CHECK(fs::equivalent(roots.back(), CAPTION_SOURCE_DIR));
  }
}

}  // namespace
}  // namespace caption::config
