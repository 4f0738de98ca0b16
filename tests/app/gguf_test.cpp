// Models in GGUF files: run, plan and inspect, beside the same weights in the layout of
// transformers.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/app/process.h"
#include "tests/support/drawn_gguf.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldens = CAPTION_SOURCE_DIR "/tests/golden/gguf_captioners";

Finished run_model(const fs::path& model, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"run",
                                        sample_video("city-000-h264.mp4").string(),
                                        "--model",
                                        model.string(),
                                        "--frames",
                                        "4",
                                        "--max-new-tokens",
                                        "12"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_cli(arguments);
}

std::string caption_of(const Finished& finished) {
  CAPTURE(finished.err);
  REQUIRE(finished.exit_code == 0);
  const std::vector<records::Record> records = parse_records(finished.out);
  REQUIRE(records.size() == 1);
  return records.front().caption;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_SUITE("app/gguf") {
  TEST_CASE("run writes the captions of the checkpoint, and says how the weights are held") {
    const testing::DrawnGguf drawn(kGoldens / "qwen2_5_vl");
    const std::vector<std::string> in_f32 = {"--dtype", "f32"};
    const Finished gguf = run_model(drawn.path(), in_f32);
    CHECK(caption_of(gguf) == caption_of(run_model(drawn.checkpoint(), in_f32)));
    CHECK(!contains(gguf.err, "codes of the file"));
    CHECK(!contains(gguf.err, "chat template"));
    CHECK(caption_of(run_model(drawn.path() / "model.gguf",
                               {"--dtype", "f32", "--max-pixels", "6000"})) == caption_of(gguf));

    const testing::DrawnGguf coded(kGoldens / "qwen3_vl_q8_0");
    const Finished of_codes = run_model(coded.path());
    CHECK(!caption_of(of_codes).empty());
    CHECK(contains(of_codes.err,
                   "25 matrices are multiplied as the codes of the file (Q8_0); the "
                   "other weights are held in bf16; "));
    const Finished again = run_model(coded.path(), {"--dtype", "int4"});
    CHECK(again.exit_code == 4);
    CHECK(contains(again.err, "holds 8-bit codes (Q8_0)"));
  }

  TEST_CASE("quantize makes files that run as the checkpoint does") {
    const testing::DrawnGguf drawn(kGoldens / "qwen3_vl");
    const fs::path out = fs::path(CAPTION_TEST_TMP) / "made_gguf";
    fs::remove_all(out);
    const auto make = [&](const char* format) {
      return run_cli({"quantize", drawn.checkpoint().string(), "-o", (out / format).string(),
                      "--format", format});
    };
    const Finished f16 = make("gguf-f16");
    CAPTURE(f16.err);
    CHECK(f16.exit_code == 0);
    CHECK(contains(f16.err, ": 117 tensors in gguf-f16, "));
    const std::vector<std::string> in_f32 = {"--dtype", "f32"};
    CHECK(caption_of(run_model(out / "gguf-f16", in_f32)) ==
          caption_of(run_model(drawn.checkpoint(), in_f32)));
    for (const char* const format : {"gguf-q8_0", "gguf-q4_0"}) {
      const Finished made = make(format);
      CHECK(made.exit_code == 0);
      CHECK(contains(made.err, "are f16, because the rows are no multiple of 32: "));
      const Finished run = run_model(out / format);
      CHECK(run.exit_code == 0);
      CHECK(contains(run.err, "matrices are multiplied as the codes of the file"));
    }
    const Finished again = run_cli({"quantize", drawn.checkpoint().string(), "-o",
                                    (out / "gguf-f16").string(), "--format", "gguf-q8_0"});
    CHECK(again.exit_code == 2);
    CHECK(contains(again.err, "other weights are in the output folder; give an empty one"));
    const Finished option = run_cli({"quantize", "m", "-o", "o", "--format", "gguf-q8_0",
                                     "--max-shard-size", "1GB", "--quiet"});
    CHECK(option.exit_code != 0);
  }

  TEST_CASE("quantize refuses a folder that could not be run, and writes nothing") {
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "of_other_patches";
    const fs::path out = fs::path(CAPTION_TEST_TMP) / "of_other_patches_gguf";
    fs::remove_all(folder);
    fs::remove_all(out);
    fs::copy(CAPTION_SOURCE_DIR "/samples/demo-model", folder);
    std::string config = read_text(folder / "config.json");
    const std::string from = "\"patch_size\": 14";
    REQUIRE(contains(config, from));
    config.replace(config.find(from), from.size(), "\"patch_size\": 7");
    write_text(folder / "config.json", config);
    const Finished made =
        run_cli({"quantize", folder.string(), "-o", out.string(), "--format", "gguf-q8_0"});
    CHECK(made.exit_code == 3);
    CHECK(contains(made.err, "patch_embedding.weight\" has shape [192, 3, 14, 14]"));
    CHECK(!fs::exists(out));
  }

  TEST_CASE("plan and inspect know them") {
    const testing::DrawnGguf drawn(kGoldens / "qwen3_vl_q8_0");
    const std::string text = (drawn.path() / "model.gguf").string();
    const std::string tower = (drawn.path() / "mmproj-model.gguf").string();
    const Finished plan = run_cli(
        {"plan", "--bandwidth", "9", "--flops", "9", "--model", drawn.path().string(), "--json"});
    CHECK(plan.exit_code == 0);
    for (const std::string& name : {text, drawn.path().string()}) {
      CAPTURE(name);
      const Finished inspect = run_cli({"inspect", name});
      CAPTURE(inspect.out);
      CHECK(inspect.exit_code == 0);
      CHECK(contains(inspect.out, "qwen3_vl, captions videos; its language model is qwen3"));
      CHECK(contains(inspect.out, "in 2 files"));
      CHECK(contains(inspect.out, "GGUF: Q8_0"));
      CHECK(contains(inspect.out, "runs        yes"));
    }
    const Finished part = run_cli({"inspect", tower});
    CAPTURE(part.out);
    CHECK(part.exit_code == 3);
    CHECK(contains(part.out, "a GGUF file"));
    CHECK(contains(part.out, "holds       clip"));
    CHECK(contains(part.out,
                   "is a vision tower without its language model; put the GGUF file of the"));
    fs::remove(tower);
    const Finished alone = run_cli({"inspect", text});
    CAPTURE(alone.out);
    CHECK(alone.exit_code == 3);
    CHECK(contains(alone.out, "holds       qwen3vl, Small"));
    CHECK(contains(alone.out, "is a language model without its vision tower"));
    const Finished run = run_model(text);
    CHECK(run.exit_code == 3);
    CHECK(contains(run.err, "is a language model without its vision tower"));
    fs::resize_file(text, 5000);
    const Finished cut = run_cli({"inspect", text});
    CHECK(cut.exit_code == 3);
    CHECK(contains(cut.out, "the file may be cut short"));
  }

  TEST_CASE("parts of a LLaVA are a composed model") {
    const testing::DrawnGguf drawn(kGoldens / "llava_next_video");
    const std::string tower = (drawn.path() / "mmproj-model.gguf").string();
    const Finished part = run_cli({"inspect", tower});
    CAPTURE(part.out);
    CHECK(part.exit_code == 0);
    CHECK(contains(part.out, "vision tower, for model.vision of a preset"));
    const fs::path preset = drawn.path() / "my.yaml";
    write_text(preset, "model:\n  vision: " + tower + "\n  projector: " + tower +
                           "\n  llm: " + (drawn.path() / "model.gguf").string() +
                           "\n  prompt: \"[INST] {video}{prompt} [/INST]\"\n");
    const Finished run = run_cli({"run", sample_video("city-000-h264.mp4").string(), "--preset",
                                  preset.string(), "--max-new-tokens", "8", "--frames", "2"});
    CAPTURE(run.err);
    CHECK(run.exit_code == 0);
  }
}

}  // namespace
}  // namespace caption::test
