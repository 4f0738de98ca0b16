// The disk caches with the families whose prompts hold more than rows of tokens: positions along
// three axes, rows of DeepStack, several images. A second run takes vision tokens and KV pages from
// disk and writes the captions of a run without caches.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/app/process.h"
#include "tests/support/drawn_checkpoint.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;
using records::Record;

struct Captions {
  std::vector<std::string> texts;
  std::vector<Record> records;
  std::string err;
};

// The captions of two clips by a model.
Captions caption_two(const fs::path& model, const std::string& prompt,
                     const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"run",
                                        sample_video("city-000-h264.mp4").string(),
                                        sample_video("field-008-vp9.webm").string(),
                                        "--model",
                                        model.string(),
                                        "--prompt",
                                        prompt,
                                        "--dtype",
                                        "f32",
                                        "--frames",
                                        "5",
                                        "--max-new-tokens",
                                        "16",
                                        "-v"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Finished finished = run_cli(arguments);
  CAPTURE(finished.err);
  REQUIRE(finished.exit_code == 0);
  Captions found{.texts = {}, .records = parse_records(finished.out), .err = finished.err};
  REQUIRE(found.records.size() == 2);
  std::sort(found.records.begin(), found.records.end(),
            [](const Record& a, const Record& b) { return a.video < b.video; });
  for (const Record& record : found.records) found.texts.push_back(record.caption);
  return found;
}

TEST_SUITE("app/family_cache") {
  TEST_CASE("a second run from disk has the captions of a run without caches") {
    struct Case {
      const char* family;
      const char* name;
    };
    constexpr Case kCases[] = {
        {"qwen3_vl", "untied_f32"}, {"qwen2_5_vl", "untied_f32"}, {"internvl", "vit_300m_f32"}};
    for (const Case& c : kCases) {
      CAPTURE(std::string(c.family));
      const testing::DrawnCheckpoint model(fs::path(CAPTION_SOURCE_DIR) / "tests/golden" /
                                           c.family / c.name);
      const TemporaryFolder cache;
      const std::vector<std::string> with_cache = {"--kv-cache-dir", cache.path().string()};
      const std::string prompt = "이 영상을 자세히 설명해 주세요.";
      const Captions plain = caption_two(model.path(), prompt);
      CHECK(plain.texts[0] != plain.texts[1]);
      CHECK(caption_two(model.path(), prompt, with_cache).texts == plain.texts);
      const Captions again = caption_two(model.path(), prompt, with_cache);
      CHECK(again.texts == plain.texts);
      for (const Record& record : again.records) {
        CHECK(record.decode_ms == 0);
        CHECK(record.vision_ms == 0);
      }
      CHECK(again.err.find("of prompt tokens hit") != std::string::npos);
      const std::string other = "무엇이 보입니까?";
      const Captions asked = caption_two(model.path(), other, with_cache);
      CHECK(asked.texts == caption_two(model.path(), other).texts);
      CHECK(asked.texts != plain.texts);
      for (const Record& record : asked.records) CHECK(record.vision_ms == 0);
    }
  }
}

}  // namespace
}  // namespace caption::test
