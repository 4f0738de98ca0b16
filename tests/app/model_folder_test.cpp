// Tests the effect of files in a model's folder other than its weights.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/app/process.h"
#include "tests/support/drawn_checkpoint.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

// A copy of the demonstration model, and a preset that sets only the model.
class OwnModel {
 public:
  OwnModel() {
    fs::copy(fs::path(CAPTION_SOURCE_DIR) / "samples/demo-model", folder());
    write_text(preset(), "model: " + folder().string() + "\n");
  }

  fs::path folder() const { return place_.path() / "model"; }
  std::string preset() const { return (place_.path() / "mine.yaml").string(); }
  void write(const char* name, const std::string& text) const { write_text(folder() / name, text); }
  Finished run(std::vector<std::string> flags = {}) const {
    flags.insert(flags.begin(),
                 {"run", sample_video("city-000-h264.mp4").string(), "--preset", preset()});
    return run_cli(flags);
  }

 private:
  TemporaryFolder place_;
};

TEST_SUITE("app/model_folder") {
  TEST_CASE("generation_config.json counts where preset and flags are silent") {
    const OwnModel model;
    model.write("generation_config.json", R"({"eos_token_id": 2, "max_new_tokens": 4})");
    const Finished finished = model.run();
    CHECK(finished.exit_code == 0);
    CHECK(parse_records(finished.out).at(0).output_tokens == 4);
    CHECK(finished.err.find("generation_config.json: max_new_tokens 4\n") != std::string::npos);
    CHECK(parse_records(model.run({"--max-new-tokens", "6"}).out).at(0).output_tokens == 6);

    const std::string shown = run_cli({"presets", "--show", model.preset()}).out;
    const std::size_t line = shown.find("  max_new_tokens: 4  #");
    REQUIRE(line != std::string::npos);
    CHECK(shown.substr(line, shown.find('\n', line) - line)
              .ends_with("from the model's generation_config.json"));
  }

  TEST_CASE("a tokenizer that cannot encode the prompt ends the run before any clip") {
    const OwnModel model;
    fs::remove(model.folder() / "tokenizer.model");
    std::string tokenizer = read_text(model.folder() / "tokenizer.json");
    CHECK(model.run().exit_code == 0);
    std::string steps;
    for (int i = 0; i < 30; ++i) {
      steps += (i == 0 ? "" : ",") +
               std::string(R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})");
    }
    const std::string none = "\"normalizer\": null";
    REQUIRE(tokenizer.find(none) != std::string::npos);
    tokenizer.replace(tokenizer.find(none), none.size(),
                      R"("normalizer": {"type": "Sequence", "normalizers": [)" + steps + "]}");
    model.write("tokenizer.json", tokenizer);
    const std::string output = (model.folder().parent_path() / "out.jsonl").string();
    const Finished finished = model.run({"--prompt", "a", "-o", output});
    CHECK(finished.exit_code == 2);
    CHECK(finished.err.find(": the prompt cannot be encoded: the tokenizer's normalizer") !=
          std::string::npos);
    CHECK_FALSE(fs::exists(output));
    const std::string examples = (model.folder().parent_path() / "examples.jsonl").string();
    write_text(examples, "{\"caption\": \"b\"}\n{\"caption\": \"a\"}\n");
    const Finished example = model.run({"--prompt", "b", "--examples", examples, "-o", output});
    CHECK(example.exit_code == 2);
    CHECK(example.err.find(": the caption of example 2 cannot be encoded: the tokenizer's "
                           "normalizer") != std::string::npos);
  }

  TEST_CASE("a tokenizer.json that is passed over is named, with what it lacks") {
    const OwnModel model;
    const Finished whole = model.run();
    CHECK(whole.exit_code == 0);
    CHECK(whole.err.find("tokenizer.model is read in place") == std::string::npos);
    for (const auto& [json, why] :
         {std::pair{R"({"model": {"type": "BPE"}})",
                    "model: has no vocab or no merges; download the file again"},
          std::pair{R"({"model": {"type": "WordPiece"}})", "\"WordPiece\" is not supported"}}) {
      model.write("tokenizer.json", json);
      const Finished finished = model.run();
      CAPTURE(finished.err);
      CHECK(finished.exit_code == 0);
      CHECK(finished.err.find("warning: text: ") != std::string::npos);
      CHECK(finished.err.find(": tokenizer.model is read in place of tokenizer.json (") !=
            std::string::npos);
      CHECK(finished.err.find(why) != std::string::npos);
      CHECK(parse_records(finished.out).at(0).caption == parse_records(whole.out).at(0).caption);
    }
    model.write("tokenizer.json", "{");
    const Finished torn = model.run();
    CHECK(torn.exit_code == 3);
    CHECK(torn.err.find("tokenizer.json: not valid JSON") != std::string::npos);
  }

  TEST_CASE("--max-pixels changes how many vision tokens a clip has") {
    const testing::DrawnCheckpoint model(fs::path(CAPTION_SOURCE_DIR) /
                                         "tests/golden/qwen3_vl/untied_f32");
    const auto vision_tokens = [&](const std::vector<std::string>& more) {
      std::vector<std::string> arguments = {"run",
                                            sample_video("city-000-h264.mp4").string(),
                                            "--model",
                                            model.path().string(),
                                            "--frames",
                                            "4",
                                            "--max-new-tokens",
                                            "2"};
      arguments.insert(arguments.end(), more.begin(), more.end());
      const Finished finished = run_cli(arguments);
      CAPTURE(finished.err);
      CHECK(finished.exit_code == 0);
      return parse_records(finished.out).at(0).vision_tokens;
    };
    // Frames of 640x360 pixels, made so small that 4 of them have at most so many pixels together;
    // two frames of 8x8 pixels are one token.
    const std::int64_t usual = vision_tokens({});  // size.longest_edge is 20000
    CHECK(usual > 100);
    CHECK(usual <= 20000 / 128);
    CHECK(vision_tokens({"--max-pixels", "20000"}) == usual);
    const std::int64_t more = vision_tokens({"--max-pixels", "80000"});
    CHECK(more > 3 * usual);
    CHECK(more <= 80000 / 128);
    CHECK(vision_tokens({"--max-pixels", "5000"}) < usual / 3);
  }

  TEST_CASE("a model named by a flag is the one below the working folder") {
    const OwnModel model;
    model.write("generation_config.json", R"({"eos_token_id": 2, "max_new_tokens": 4})");
    const fs::path root = model.folder().parent_path();
    fs::create_directories(root / "samples");
    // The path of the demonstration model in the presets.
    fs::rename(model.folder(), root / "samples/demo-model");
    const std::string video = sample_video("city-000-h264.mp4").string();
    struct Case {
      fs::path folder;
      const char* name;
    };
    const Case cases[] = {{root, "samples/demo-model"},
                          {root / "samples", "../samples/demo-model"},
                          {root / "samples/demo-model", "."}};
    // A preset with another model of that name next to it.
    fs::create_directories(root / "presets/samples");
    fs::create_directory_symlink(fs::path(CAPTION_SOURCE_DIR) / "samples/demo-model",
                                 root / "presets/samples/demo-model");
    const fs::path preset = root / "presets/plain.yaml";
    write_text(preset, "video:\n  num_frames: 8\n");
    for (const Case& c : cases) {
      CAPTURE(c.name);
      const Finished finished = run_cli_in(
          {.folder = c.folder}, {"run", video, "--model", c.name, "--preset", preset.string()});
      CHECK(finished.exit_code == 0);
      CHECK(parse_records(finished.out).at(0).output_tokens == 4);
    }
  }

  TEST_CASE("a generation_config.json with an impossible value is refused by file and key") {
    const OwnModel model;
    model.write("generation_config.json", R"({"top_p": 2})");
    const Finished finished = model.run();
    CHECK(finished.exit_code == 3);
    CHECK(finished.err.find("model/generation_config.json: top_p is 2") != std::string::npos);
  }

  TEST_CASE("beams that generation_config.json asks for meet the same checks as flags") {
    const OwnModel model;
    model.write("generation_config.json", R"({"eos_token_id": 2, "num_beams": 3})");
    const Finished finished = model.run({"--max-num-seqs", "2"});
    CHECK(finished.exit_code == 2);
    CHECK(finished.err.find("--num-beams 3: beams run together") != std::string::npos);
  }

  TEST_CASE("beams with more stop ids than their candidates hold are refused at the start") {
    const OwnModel model;
    std::string ids = "2";
    for (int id = 300; id < 600; ++id) ids += "," + std::to_string(id);
    model.write("generation_config.json", R"({"num_beams": 4, "eos_token_id": [)" + ids + "]}");
    for (const bool is_dry : {false, true}) {
      const Finished finished = is_dry ? model.run({"--dry-run"}) : model.run();
      CHECK(finished.exit_code == 2);
      CHECK(finished.err.find("num_beams is 4; with 301 stop ids that takes 305 candidates") !=
            std::string::npos);
      CHECK(finished.out.empty());
    }
  }

  TEST_CASE("a config.json that cannot be read is an error of the model, not of a clip") {
    const TemporaryFolder folder;
    REQUIRE(::mkfifo((folder.path() / "config.json").c_str(), 0600) == 0);
    for (const char* name : {"run", "plan"}) {
      CAPTURE(name);
      std::vector<std::string> command = {name, "--model", folder.path().string()};
      if (name == std::string("run")) command.push_back(sample_video("city-000-h264.mp4").string());
      const Finished finished = run_cli(command);
      CHECK(finished.exit_code == 3);
      CHECK(finished.err.find("config.json: is a FIFO, not a regular file") != std::string::npos);
    }
  }

  TEST_CASE("half an adapter beside the weights is refused") {
    const OwnModel model;
    model.write("adapter_config.json", "{}");
    const Finished finished = model.run();
    CHECK(finished.exit_code == 3);
    CHECK(finished.err.find("model/adapter_model.safetensors is missing") != std::string::npos);
  }

  TEST_CASE("the demonstration model says that it is one, and no other model does") {
    constexpr const char* kSentence = "this is the demonstration model: it knows drawn background";
    const OwnModel model;
    CHECK(model.run().err.find(kSentence) != std::string::npos);
    std::string config = read_text(model.folder() / "config.json");
    constexpr std::string_view kKey = "\"caption_cli_demonstration\"";
    REQUIRE(config.find(kKey) != std::string::npos);
    config.replace(config.find(kKey), kKey.size(), "\"of_no_meaning\"");
    model.write("config.json", config);
    const Finished other = model.run();
    CHECK(other.exit_code == 0);
    CHECK(other.err.find(kSentence) == std::string::npos);
  }

  TEST_CASE("digests of weights are kept in the cache folder") {
    const TemporaryFolder cache;
    const std::string model = (fs::path(CAPTION_SOURCE_DIR) / "samples/demo-model").string();
    const auto inspect = [&] {
      return run_cli({"inspect", "--hash", model}, "", {{"XDG_CACHE_HOME", cache.path().string()}});
    };
    // The speeds of the machine differ from run to run.
    const auto hash_of = [](const Finished& finished) {
      const std::size_t begin = finished.out.find("  hash ");
      return finished.out.substr(begin, finished.out.find('\n', begin) - begin);
    };
    const Finished first = inspect();
    CHECK(first.exit_code == 0);
    const fs::path digests = cache.path() / "caption-cli/digests";
    CHECK(std::distance(fs::directory_iterator(digests), fs::directory_iterator()) == 1);
    CHECK(hash_of(first).size() > 64);
    CHECK(hash_of(inspect()) == hash_of(first));
    // Without a cache folder the digest is computed without a message.
    const Finished bare =
        run_cli({"inspect", "--hash", model}, "", {{"XDG_CACHE_HOME", ""}, {"HOME", ""}});
    CHECK(hash_of(bare) == hash_of(first));
    CHECK(bare.err == first.err);
  }
}

}  // namespace
}  // namespace caption::test
