#include "config/draft_captions.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace caption::config {
namespace {

using Captions = std::vector<std::string>;

// Writes a file of this test.
std::string file(const std::string& name, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(CAPTION_TEST_TMP) / name;
  std::ofstream(path) << text;
  return path.string();
}

Captions known(const std::vector<std::string>& files) {
  Preset preset;
  preset.speculative.method = DraftMethod::kArchive;
  preset.speculative.draft_from = files;
  return draft_options(preset).known_captions;
}

TEST_SUITE("config/draft_captions") {
  TEST_CASE("captions come from records without failures, and from references") {
    const std::string records =
        file("records.jsonl",
             "{\"video\":\"a.mp4\",\"caption\":\"one\",\"status\":\"ok\"}\n"
             "{\"video\":\"b.mp4\",\"caption\":\"\",\"status\":\"failed\"}\n");
    const std::string references =
        file("references.jsonl",
             "{\"video\":\"a.mp4\",\"captions\":[\"two\",\"three\"]}\n"
             "{\"video\":\"b.mp4\",\"captions\":[\"four\"],\"prompts\":{\"short\":[\"five\"]}}\n");
    CHECK(known({records}) == Captions{"one"});
    CHECK(known({references, records}) == Captions{"two", "three", "four", "five", "one"});
    CHECK(earlier_captions(records) == Captions{"one"});
    CHECK(earlier_captions(references).empty());
    CHECK(earlier_captions(records + ".none").empty());
  }

  TEST_CASE("a file that is no text is refused by its beginning, however large it is") {
    const std::string large = file("large.bin", std::string(100, 'x') + '\0');
    std::filesystem::resize_file(large, std::uintmax_t{1} << 40);  // sparse; cannot be read whole
    CHECK_THROWS_WITH_AS(known({large}), doctest::Contains("is no text"), Error);
    std::filesystem::remove(large);
  }

  TEST_CASE("reading ends when the run is stopped") {
    const std::string records =
        file("stopped.jsonl", "{\"video\":\"a.mp4\",\"caption\":\"one\",\"status\":\"ok\"}\n");
    const std::atomic<bool> stop = true;
    Preset preset;
    preset.speculative.method = DraftMethod::kArchive;
    preset.speculative.draft_from = {records};
    const auto code_of = [](const auto& read) {
      try {
        read();
      } catch (const Error& error) {
        return error.code();
      }
      return ErrorCode::kInternal;
    };
    CHECK(code_of([&] { draft_options(preset, &stop); }) == ErrorCode::kCancelled);
    CHECK(code_of([&] { earlier_captions(records, &stop); }) == ErrorCode::kCancelled);
    const std::filesystem::path labels = std::filesystem::path(CAPTION_TEST_TMP) / "stopped";
    std::filesystem::create_directories(labels);
    std::ofstream(labels / "a.json") << R"({"annotation":{"description_kr":"one"}})";
    preset.speculative.draft_from = {labels.string()};
    CHECK(draft_options(preset).known_captions == Captions{"one"});
    CHECK(code_of([&] { draft_options(preset, &stop); }) == ErrorCode::kCancelled);
  }

  TEST_CASE("a broken file is named with its line, and a torn output is read up to there") {
    const std::string torn = file("torn.jsonl",
                                  "{\"video\":\"a.mp4\",\"caption\":\"one\",\"status\":\"ok\"}\n"
                                  "{\"video\":\"b.mp4\",\"capt");
    CHECK(known({torn}) == Captions{"one"});
    const std::string torn_within =
        file("within.jsonl",
             "{\"video\":\"a.mp4\",\"capt\n"
             "{\"video\":\"b.mp4\",\"caption\":\"two\",\"status\":\"ok\"}\n");
    CHECK_THROWS_WITH_AS(known({torn_within}), doctest::Contains("within.jsonl:1"), Error);
    const std::string only_torn = file("only.jsonl", "{\"video\":\"b.mp4\",\"capt");
    CHECK_THROWS_WITH_AS(known({only_torn}), doctest::Contains("only.jsonl:1"), Error);
    CHECK(earlier_captions(torn) == Captions{"one"});
    CHECK_THROWS_WITH_AS(known({torn + ".none"}), doctest::Contains("torn.jsonl.none"), Error);
    const std::string utf16 = file("utf16.jsonl", std::string("\xFF\xFE{\0\"\0", 6));
    CHECK_THROWS_WITH_AS(known({utf16}),
                         ("--draft-from: " + utf16 +
                          ": is in UTF-16; UTF-8 is expected, which \"iconv -f UTF-16 -t UTF-8\" "
                          "makes of it")
                             .c_str(),
                         Error);
    Preset preset;
    preset.speculative.draft_from = {torn};
    CHECK_THROWS_WITH_AS(draft_options(preset), doctest::Contains("--drafts archive"), Error);
  }

  TEST_CASE("of too many captions the last ones are kept") {
    pipeline::DraftOptions drafts{.max_archive_bytes = 10};
    add_known_captions({"aaaa", "bbbb"}, drafts);
    CHECK(drafts.known_captions == Captions{"aaaa", "bbbb"});
    add_known_captions({"cccc"}, drafts);
    CHECK(drafts.known_captions == Captions{"bbbb", "cccc"});
    add_known_captions({"a text of more than ten bytes"}, drafts);
    CHECK(drafts.known_captions.empty());
  }
}

}  // namespace
}  // namespace caption::config
