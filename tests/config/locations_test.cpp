// Tests what the environment's variables name.
#include "config/locations.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace caption::config {
namespace {

namespace fs = std::filesystem;

Locations locations_of(const std::map<std::string, std::string>& environment) {
  return find_locations([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST_SUITE("config/locations") {
  TEST_CASE("an empty environment names nothing") {
    for (const auto& environment : {std::map<std::string, std::string>{},
                                    {{"HOME", ""}, {"HF_HOME", ""}, {"CAPTION_PRESETS", ""}}}) {
      const Locations locations = locations_of(environment);
      CHECK(locations.own_presets.empty());
      CHECK(locations.hub_caches.empty());
      CHECK(locations.digests.empty());
      CHECK(locations.prices.empty());
      CHECK(locations.rates.empty());
      CHECK(locations.preset_folder.empty());
    }
  }

  TEST_CASE("hub caches are searched from the most particular variable to HOME") {
    const Locations locations = locations_of({{"HOME", "/home/me"},
                                              {"XDG_CACHE_HOME", "/cache"},
                                              {"HF_HOME", "/hf"},
                                              {"HF_HUB_CACHE", "/hub"},
                                              {"CAPTION_PRESETS", "presets"}});
    CHECK(locations.own_presets == "presets");
    CHECK(locations.hub_caches == std::vector<fs::path>{"/hub", "/hf/hub", "/cache/huggingface/hub",
                                                        "/home/me/.cache/huggingface/hub"});
    CHECK(locations.digests == "/cache/caption-cli/digests");
    CHECK(locations.prices == "/cache/caption-cli/prices");
    CHECK(locations.rates == "/cache/caption-cli/rates");
    CHECK(locations.self_drafts == "/cache/caption-cli/self-drafts");
  }

  TEST_CASE("a hub cache that two variables name is searched once") {
    CHECK(locations_of({{"HOME", "/home/me"}, {"XDG_CACHE_HOME", "/home/me/.cache/"}}).hub_caches ==
          std::vector<fs::path>{"/home/me/.cache/huggingface/hub"});
    CHECK(locations_of({{"HF_HOME", "/hf"}, {"HF_HUB_CACHE", "/hf/hub/"}}).hub_caches ==
          std::vector<fs::path>{"/hf/hub/"});
  }

  TEST_CASE("temporary files are in TMPDIR, or in a folder that is not memory") {
    CHECK(locations_of({{"TMPDIR", "/scratch"}}).temporary == "/scratch");
    CHECK(locations_of({{"TMPDIR", ""}}).temporary == "/var/tmp");
  }

  TEST_CASE("digests are never stored in a relative folder") {
    CHECK(locations_of({{"XDG_CACHE_HOME", "cache"}, {"HOME", "/home/me"}}).digests ==
          "/home/me/.cache/caption-cli/digests");
    CHECK(locations_of({{"HOME", "home"}}).digests.empty());
    CHECK(locations_of({{"HOME", "home"}}).prices.empty());
  }
}

}  // namespace
}  // namespace caption::config
