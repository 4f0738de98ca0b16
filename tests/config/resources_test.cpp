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

  TEST_CASE("demo is the demonstration model") {
    CHECK(fs::equivalent(find_model("demo", {}), CAPTION_SOURCE_DIR "/samples/demo-model"));
  }

  TEST_CASE("price tables are the user's own, then those beside the presets") {
    const std::size_t num_roots = resource_roots().size();
    CHECK(price_folders({}).size() == num_roots);
    Locations locations;
    locations.prices = "/cache/prices";
    const std::vector<fs::path> folders = price_folders(locations);
    REQUIRE(folders.size() == num_roots + 1);
    CHECK(folders.front() == "/cache/prices");
    CHECK(fs::equivalent(folders.back(), fs::path(CAPTION_SOURCE_DIR) / "presets/prices"));
    locations.own_presets = "/own";
    CHECK(price_folders(locations).at(1) == "/own/prices");
  }
}

}  // namespace
}  // namespace caption::config
