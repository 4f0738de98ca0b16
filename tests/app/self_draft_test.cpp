// Tests that drafts of the model itself without some layers change no caption, and the file that
// keeps these layers.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/app/process.h"
#include "tests/support/drawn_checkpoint.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

// Captions, by video, of two clips.
struct Captioned {
  std::map<std::string, std::string> captions;
  std::int64_t num_accepted = 0;
  std::string err;
};

Captioned caption(const fs::path& model, const Arguments& options,
                  const Environment& environment = {}) {
  Arguments arguments = {"run",
                         sample_video("city-000-h264.mp4").string(),
                         sample_video("field-008-vp9.webm").string(),
                         "--model",
                         model.string(),
                         "--max-new-tokens",
                         "40"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Finished finished = run_cli(arguments, "", environment);
  CAPTURE(finished.err);
  REQUIRE(finished.exit_code == 0);
  Captioned found{.captions = {}, .err = finished.err};
  for (const records::Record& record : parse_records(finished.out)) {
    found.captions[record.video] = record.caption;
    if (!record.speculation.has_value()) continue;
    for (const records::Speculation::Source& source : record.speculation->sources) {
      CHECK(source.name == "self");
      found.num_accepted += source.accepted;
    }
  }
  REQUIRE(found.captions.size() == 2);
  return found;
}

// Replaces the first `old` in the file.
void replace_in(const fs::path& file, const std::string& old, const std::string& with) {
  std::string text = read_text(file);
  const std::size_t at = text.find(old);
  REQUIRE(at != std::string::npos);
  write_text(file, text.replace(at, old.size(), with));
}

// A preset with which every guess is computed, whether it pays or not.
std::string forced_preset(const fs::path& folder) {
  write_text(folder / "forced.yaml",
             "model: samples/demo-model\nspeculative:\n  method: self\n  adaptive: false\n");
  return (folder / "forced.yaml").string();
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_SUITE("app/self-draft") {
  TEST_CASE("captions of every family are those without, in other formats, too") {
    struct Case {
      const char* family;
      const char* name;
    };
    constexpr Case kCases[] = {{"qwen3_vl", "untied_f32"},
                               {"qwen2_5_vl", "untied_f32"},
                               {"internvl", "vit_300m_f32"},
                               {"llava_onevision", "qwen3_f32"}};
    const std::vector<Arguments> formats = {
        {"--dtype", "f32"},
        {"--dtype", "int8", "--kv-dtype", "int8", "--batching", "static", "--temperature", "0.8",
         "--repetition-penalty", "1.2", "--seed", "5"}};
    const TemporaryFolder folder;
    const std::string forced = forced_preset(folder.path());
    std::int64_t num_accepted = 0;
    for (const Case& c : kCases) {
      CAPTURE(std::string(c.family));
      const testing::DrawnCheckpoint model(fs::path(CAPTION_SOURCE_DIR) / "tests/golden" /
                                           c.family / c.name);
      // Of two layers none can be spared; then the second one is left out all the same.
      const Captioned first = caption(model.path(), {"--drafts", "self", "--frames", "4"});
      CHECK(says(first.err, "no self-drafts"));
      replace_in(model.path() / "self-draft.json", "\"left_out\":[]", "\"left_out\":[1]");
      for (const Arguments& format : formats) {
        CAPTURE(format);
        Arguments options = format;
        options.insert(options.end(), {"--frames", "4", "--preset", forced});
        const Captioned with = caption(model.path(), options);
        options.insert(options.end(), {"--drafts", "none"});
        CHECK(with.captions == caption(model.path(), options).captions);
        CHECK(says(with.err, "leave out 1 of 2 layers"));
        num_accepted += with.num_accepted;
      }
    }
    CHECK(num_accepted > 0);
  }

  TEST_CASE(
      "layers are kept beside the model, or in the cache, and only those of this model count") {
    const TemporaryFolder folder;
    const fs::path model = folder.path() / "model";
    fs::copy(fs::path(CAPTION_SOURCE_DIR) / "samples/demo-model", model);
    const fs::path kept = model / "self-draft.json";
    fs::remove(kept);
    const std::string forced = forced_preset(folder.path());
    const Captioned plain = caption(model, {});
    // The search needs more text than two captions have.
    const Arguments all = {"run", sample_video("").string(), "--model", model.string()};
    Arguments searching = all;
    searching.insert(searching.end(), {"--drafts", "self"});
    CHECK(says(run_cli(searching).err, "no self-drafts"));
    const std::string found = read_text(kept);
    CHECK(says(run_cli(searching).err, "; from " + kept.string()));
    CHECK(read_text(kept) == found);

    replace_in(kept, "\"left_out\":[]", "\"left_out\":[1,2]");
    const Captioned with = caption(model, {"--preset", forced});
    CHECK(says(with.err, "self-drafts leave out 2 of 4 layers"));
    CHECK(with.captions == plain.captions);

    // Another model's, and one that is cut short.
    const std::string sound = read_text(kept);
    std::string other = sound;
    other[sound.find("model_hash\":\"") + 13] ^= 1;
    for (const auto& [text, sentence] :
         std::map<std::string, std::string>{{other, "has the layers of another model"},
                                            {sound.substr(0, 40), "self-draft.json"},
                                            {std::string(), "self-draft.json"}}) {
      write_text(kept, text);
      const Captioned without = caption(model, {"--preset", forced});
      CHECK(says(without.err, sentence));
      CHECK(says(without.err, "it is not used"));
      CHECK(without.captions == plain.captions);
    }

    // A folder where the file should be cannot be written to.
    fs::remove(kept);
    fs::create_directory(kept);
    const Environment cache = {{"XDG_CACHE_HOME", (folder.path() / "cache").string()}};
    CHECK(says(run_cli(searching, "", cache).err, "cache/caption-cli/self-drafts/"));
    CHECK(says(run_cli(searching, "", cache).err, "; from " + folder.path().string() + "/cache"));
    const Environment nowhere = {{"XDG_CACHE_HOME", kept.parent_path() / "config.json"}};
    const Finished unkept = run_cli(searching, "", nowhere);
    CHECK(unkept.exit_code == 0);
    CHECK(says(unkept.err, "are not kept for later runs"));
  }

  TEST_CASE("what excludes self-drafts is one sentence") {
    for (const Arguments& other :
         std::vector<Arguments>{{"--attention", "topk-merge"}, {"--draft-model", "small"}}) {
      Arguments arguments = {"run", sample_video("").string(), "--drafts", "self"};
      arguments.insert(arguments.end(), other.begin(), other.end());
      const Finished finished = run_cli(arguments);
      CHECK(finished.exit_code == 2);
      CHECK(finished.out.empty());
      CHECK(says(finished.err, other.front()));
    }
  }
}

}  // namespace
}  // namespace caption::test
