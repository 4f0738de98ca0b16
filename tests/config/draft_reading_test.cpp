// Reading captions beside other work gives what reading them at once gives.
#include "config/draft_reading.h"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/draft_captions.h"

namespace caption::config {
namespace {

namespace fs = std::filesystem;

// A preset that takes guesses from a file of this test.
Preset preset_of(const std::string& name, const std::string& text) {
  const fs::path path = fs::path(CAPTION_TEST_TMP) / name;
  std::ofstream(path) << text;
  Preset preset;
  preset.speculative.method = DraftMethod::kArchive;
  preset.speculative.draft_from = {path.string()};
  return preset;
}

TEST_SUITE("config/draft_reading") {
  TEST_CASE("the captions, or what is wrong with the file") {
    const Preset preset = preset_of("reading.jsonl",
                                    "{\"video\":\"a.mp4\",\"captions\":[\"one\",\"two\"]}\n"
                                    "{\"video\":\"b.mp4\",\"caption\":\"three\"}\n");
    DraftReading reading(preset);
    const pipeline::DraftOptions drafts = reading.take(nullptr);
    CHECK(drafts.known_captions == std::vector<std::string>{"one", "two", "three"});
    CHECK(drafts.known_captions == draft_options(preset).known_captions);
    CHECK(drafts.how.method == DraftMethod::kArchive);

    DraftReading of_broken(
        preset_of("broken.jsonl", "{\"video\":\"a.mp4\",\"captions\":[\"\"]}\n"));
    CHECK_THROWS_WITH_AS(of_broken.take(nullptr), doctest::Contains("broken.jsonl:1: "), Error);
    DraftReading of_nothing(Preset{});
    CHECK(of_nothing.take(nullptr).known_captions.empty());
  }

  TEST_CASE("a reading that is stopped, and one that nobody waits for, end") {
    std::string text;
    for (int i = 0; i < 20'000; ++i) text += "{\"video\":\"a.mp4\",\"captions\":[\"one\"]}\n";
    const Preset preset = preset_of("long.jsonl", text);
    const std::atomic<bool> stop = true;
    DraftReading reading(preset);
    try {
      reading.take(&stop);
      FAIL_CHECK("was not cancelled");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kCancelled);
    }
    const DraftReading unread(preset);
  }

  TEST_CASE("a reading of a second and longer is said") {
    CHECK(describe_reading(120'000, 999'999).empty());
    CHECK(describe_reading(120'000, 1'740'000) ==
          "--draft-from: 120000 captions to guess from read in 1.7 s");
  }
}

}  // namespace
}  // namespace caption::config
