// The user's own model, as the README writes it: a CLIP tower, a projector, Qwen3 and an adapter in
// a preset; its captions are those of the Python in scripts/make_goldens_own_model.py, and their
// score against labels is that of the reference's METEOR.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/app/process.h"
#include "tests/support/drawn_checkpoint.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;
using records::Record;

fs::path golden() { return fs::path(CAPTION_SOURCE_DIR) / "tests/golden/own_model"; }

// The folder of the parts, with a preset.
class OwnModel {
 public:
  OwnModel() {
    write_text(path("my.yaml"),
               "model:\n"
               "  vision: clip\n"
               "  projector: projector.safetensors\n"
               "  llm: qwen3\n"
               "  adapter: lora\n"
               "  prompt: \"{video}{prompt}\"\n"
               "quantization: {weights: f32}\n"
               "engine: {prefix_cache: true}\n"
               "generation:\n"
               "  prompt: 이 영상을 자세히 설명해주세요.\n"
               "  max_new_tokens: 64\n"
               "  repetition_penalty: 1.2\n"
               "video: {num_frames: 8, sampling: linspace}\n");
  }

  fs::path path(const char* name) const { return parts_.path() / name; }
  Finished run(const std::vector<std::string>& videos,
               const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"run", "--preset", path("my.yaml")};
    for (const std::string& video : videos) arguments.push_back(sample_video(video).string());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments);
  }

 private:
  testing::DrawnCheckpoint parts_{golden()};
};

void replace_in(const fs::path& path, const std::string& from, const std::string& to) {
  std::string text = read_text(path);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  write_text(path, text.replace(at, from.size(), to));
}

TEST_SUITE("app/own_model") {
  TEST_CASE("captions are those of the user's Python, and so is their score") {
    const JsonObject expected =
        JsonObject::open(golden() / "expected.json", ErrorCode::kBadReference);
    const OwnModel model;
    std::vector<std::string> videos;
    for (const JsonObject& clip : expected.get_objects("clips")) {
      videos.push_back(clip.require_string("video"));
    }
    const std::string captions = model.path("captions.jsonl");
    const Finished finished = model.run(videos, {"-o", captions});
    CAPTURE(finished.err);
    REQUIRE(finished.exit_code == 0);
    const std::vector<Record> records = parse_records(read_text(captions));
    REQUIRE(records.size() == videos.size());
    for (const JsonObject& clip : expected.get_objects("clips")) {
      const std::string video = clip.require_string("video");
      CAPTURE(video);
      const auto record = std::find_if(records.begin(), records.end(), [&](const Record& r) {
        return r.video == sample_video(video).string();
      });
      REQUIRE(record != records.end());
      CHECK(record->caption == clip.require_string("caption"));
      CHECK(record->output_tokens == std::ssize(clip.get_ints("ids")));
      CHECK(record->vision_tokens == 8 * 4 * 4);
    }

    const std::string scores = model.path("scores.json");
    const Finished scored = run_cli(
        {"eval", "--references", golden() / "references.jsonl", captions, "--json", scores});
    CAPTURE(scored.err);
    REQUIRE(scored.exit_code == 0);
    CHECK(scored.out.find("scored clips (3)") != std::string::npos);
    const JsonObject report = JsonObject::open(scores, ErrorCode::kBadReference);
    const JsonObject wanted = expected.get_object("scores").value();
    // Another version of the dictionary, or none, makes another meteor-ko.
    const bool has_dictionary =
        report.get_object("dictionary").value().get_string("version", "").find(" 0.7.92 ") !=
        std::string::npos;
    if (!has_dictionary) MESSAGE("hunspell-ko 0.7.92 is not installed: meteor-ko is left out");
    int compared = 0;
    for (const JsonObject& metric : report.get_objects("metrics")) {
      const std::string name = metric.require_string("name");
      if (!wanted.has(name) || (name == "meteor-ko" && !has_dictionary)) continue;
      CAPTURE(name);
      CHECK(metric.get_object("scored").value().get_double("value", -1) ==
            doctest::Approx(wanted.get_double(name, -2)).epsilon(1e-9));
      ++compared;
    }
    CHECK(compared == (has_dictionary ? 2 : 1));
  }

  TEST_CASE("another setting on the same output is named before the model's digest") {
    const OwnModel model;
    const std::string out = model.path("captions.jsonl");
    const std::vector<std::string> more = {"-o", out, "--max-new-tokens", "1"};
    REQUIRE(model.run({"city-000-h264.mp4"}, more).exit_code == 0);
    replace_in(model.path("my.yaml"), "  llm:", "  pooling: 3\n  llm:");
    const Finished finished = model.run({"city-000-h264.mp4"}, more);
    CAPTURE(finished.err);
    CHECK(finished.exit_code == 2);
    CHECK(finished.err.find("another configuration: model.pooling is \"1\" there and \"3\" now; "
                            "model is ") != std::string::npos);
    // The tower has a grid of 4x4 patches.
    CHECK(finished.err.find("warning: model: model.pooling is 3: the last row and column of the "
                            "tower's grid of 4x4 patches") != std::string::npos);
    CHECK(finished.err.find("strides without a rest are 1, 2, 4\n") != std::string::npos);
  }

  TEST_CASE("parts that do not fit are refused in one sentence") {
    struct Case {
      const char* name;
      const char* file;
      const char* from;
      const char* to;
      int exit_code;
      const char* message;
    };
    const Case kCases[] = {
        {"the tower of another family", "clip/config.json", "clip_vision_model", "florence_vision",
         4, "florence_vision"},
        {"a language model of another family", "qwen3/config.json", "\"model_type\": \"qwen3\"",
         "\"model_type\": \"gpt2\"", 4, "gpt2"},
        {"a projector of another tower", "projector.safetensors", "[48,64]", "[64,48]", 3,
         "projector.safetensors"},
        {"an adapter of another base", "lora/adapter_model.safetensors", "[16,48]", "[48,16]", 3,
         "lora"},
        {"an adapter of another rank", "lora/adapter_config.json", "\"r\": 16", "\"r\": 8", 3,
         "do not have the rank 8"},
        {"a tower that is not there", "my.yaml", "vision: clip", "vision: clop", 3, "clop"},
        {"another feature layer than there is", "my.yaml",
         "  llm:", "  vision_feature_layer: -9\n  llm:", 3, "vision_feature_layer -9"},
        {"a key that the projector does not read", "my.yaml",
         "  llm:", "  projector_tokens: 64\n  llm:", 3,
         "model.projector_tokens is given, and the projector is of projector_type mlp; only "
         "c_abstractor reads it; leave it out"},
        {"a template without a video", "my.yaml", "{video}{prompt}", "{prompt}", 3,
         "model.prompt has no {video}"},
    };
    for (const Case& c : kCases) {
      CAPTURE(std::string(c.name));
      const OwnModel model;
      replace_in(model.path(c.file), c.from, c.to);
      const Finished finished = model.run({"city-000-h264.mp4"});
      CAPTURE(finished.err);
      CHECK(finished.exit_code == c.exit_code);
      CHECK(finished.out.empty());
      const std::size_t error = finished.err.rfind("error: caption-cli: ");
      REQUIRE(error != std::string::npos);
      const std::string sentence = finished.err.substr(error);
      CHECK(std::count(sentence.begin(), sentence.end(), '\n') == 1);
      CHECK(sentence.find(c.message) != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace caption::test
