// Models in GGUF files: run, plan and inspect, beside the same weights in the layout of
// transformers.
#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <iterator>
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
    const Finished of_folder = run_model(out / "gguf-f16");
    CHECK(!contains(of_folder.err, "not read"));
    fs::path text_file;
    for (const auto& entry : fs::directory_iterator(out / "gguf-f16")) {
      const bool is_tower = contains(entry.path().filename().string(), "mmproj");
      if (entry.path().extension() == ".gguf" && !is_tower) text_file = entry.path();
    }
    const Finished again = run_cli({"quantize", drawn.checkpoint().string(), "-o",
                                    (out / "gguf-f16").string(), "--format", "gguf-q8_0"});
    CHECK(again.exit_code == 2);
    CHECK(contains(again.err,
                   "the files here are made with --format gguf-f16, not gguf-q8_0; give another "
                   "folder with -o"));
    CHECK(make("gguf-q8_0").exit_code == 0);
    const Finished option = run_cli({"quantize", "m", "-o", "o", "--format", "gguf-q8_0",
                                     "--max-shard-size", "1GB", "--quiet"});
    CHECK(option.exit_code == 2);
    CHECK(contains(option.err, "--max-shard-size is for files of safetensors"));
  }

  TEST_CASE("a pair of files alone holds the processor's settings and the generation's") {
    const testing::DrawnGguf drawn(kGoldens / "qwen3_vl");
    const fs::path folder = drawn.checkpoint();
    const fs::path out = fs::path(CAPTION_TEST_TMP) / "stored_files";
    fs::remove_all(out);
    write_text(folder / "generation_config.json", "{\"num_beams\": 2}");
    const Finished made =
        run_cli({"quantize", folder.string(), "-o", out.string(), "--format", "gguf-f16"});
    CAPTURE(made.err);
    REQUIRE(made.exit_code == 0);
    fs::path text_file;
    for (const auto& entry : fs::directory_iterator(out)) {
      const std::string name = entry.path().filename().string();
      CHECK((name.ends_with(".gguf") || name == "caption-cli.quantize.json"));
      const bool is_text = name.ends_with(".gguf") && !contains(name, "mmproj");
      if (is_text) text_file = entry.path();
    }
    const auto run = [](const fs::path& model) {
      return run_cli({"run", sample_video("city-000-h264.mp4").string(), "--model", model.string(),
                      "--frames", "4", "--max-new-tokens", "12", "--dtype", "f32"});
    };
    const auto record_of = [](const Finished& finished) {
      CAPTURE(finished.err);
      REQUIRE(finished.exit_code == 0);
      return parse_records(finished.out).at(0);
    };
    const records::Record expected = record_of(run(folder));
    for (const fs::path& model : {text_file, out}) {
      CAPTURE(model.string());
      const Finished finished = run(model);
      const records::Record record = record_of(finished);
      CHECK(record.caption == expected.caption);
      CHECK(record.prompt_tokens == expected.prompt_tokens);
      CHECK(!contains(finished.err, "not read"));
      CHECK(!contains(finished.err, "in place of what"));
    }
    // Equal files beside it change nothing; of different ones the program says which count.
    fs::copy(folder / "video_preprocessor_config.json", out);
    CHECK(!contains(run(text_file).err, "not read"));
    write_text(out / "generation_config.json", "{\"num_beams\": 1}");
    const Finished of_file = run(text_file);
    CHECK(record_of(of_file).caption == expected.caption);
    CHECK(contains(of_file.err, text_file.string() +
                                    ": generation_config.json beside it is not read, and captions "
                                    "may differ: name the folder"));
    const Finished of_folder = run(out);
    CHECK(record_of(of_folder).caption != expected.caption);
    CHECK(contains(of_folder.err,
                   ": generation_config.json counts in place of what the GGUF files hold"));
  }

  TEST_CASE("quantize to GGUF writes to no folder that holds other files") {
    const fs::path out = fs::path(CAPTION_TEST_TMP) / "foreign_gguf";
    const std::string model = CAPTION_SOURCE_DIR "/samples/demo-model";
    // Without the manifest a file of the same name is another program's, too.
    for (const auto& [name, reason] :
         {std::pair("notes.txt", "is no file of this checkpoint"),
          std::pair("demo-model-Q8_0.gguf", "is there without caption-cli.quantize.json")}) {
      CAPTURE(std::string(name));
      fs::remove_all(out);
      fs::create_directories(out);
      write_text(out / name, "kept");
      const Finished made =
          run_cli({"quantize", model, "-o", out.string(), "--format", "gguf-q8_0"});
      CHECK(made.exit_code == 2);
      CHECK(contains(made.err, std::string(name) + ": " + reason));
      CHECK(contains(made.err, "give another folder with -o"));
      CHECK(read_text(out / name) == "kept");
      CHECK(std::distance(fs::directory_iterator(out), fs::directory_iterator()) == 1);
    }
  }

  TEST_CASE("quantize refuses a folder as run does, and writes nothing") {
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "not_runnable";
    const fs::path out = fs::path(CAPTION_TEST_TMP) / "not_runnable_out";
    const auto replace = [&](const std::string& from, const std::string& to) {
      std::string config = read_text(folder / "config.json");
      REQUIRE(contains(config, from));
      write_text(folder / "config.json", config.replace(config.find(from), from.size(), to));
    };
    const struct {
      std::function<void()> spoil;
      const char* message;
    } kRows[] = {
        {[&] { replace("\"patch_size\": 14", "\"patch_size\": 7"); },
         "patch_embedding.weight\" has shape [192, 3, 14, 14]"},
        {[&] { fs::remove(folder / "preprocessor_config.json"); },
         "neither video_preprocessor_config.json nor preprocessor_config.json is there"},
        {[&] { write_text(folder / "generation_config.json", "{\"temperature\": -3}"); },
         "generation_config.json: temperature is -3"},
        {[&] { write_text(folder / "config.json", "{}"); }, "config.json: model_type: is missing"},
        {[&] { replace("\"image_size\": 112", "\"image_size\": 0"); },
         "vision_config.image_size: expected 1 to 8192, found 0"},
        {[&] {
           fs::remove(folder / "tokenizer.json");
           fs::remove(folder / "tokenizer.model");
         },
         "has no tokenizer"}};
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.message));
      fs::remove_all(folder);
      fs::copy(CAPTION_SOURCE_DIR "/samples/demo-model", folder);
      row.spoil();
      const Finished run = run_model(folder);
      CAPTURE(run.err);
      CHECK(contains(run.err, row.message));
      for (const char* const format : {"gguf-q8_0", "nf4"}) {
        CAPTURE(std::string(format));
        fs::remove_all(out);
        const Finished made =
            run_cli({"quantize", folder.string(), "-o", out.string(), "--format", format});
        CHECK(made.exit_code == 3);
        CHECK(contains(made.err, row.message));
        CHECK(!fs::exists(out));
      }
    }
  }

  TEST_CASE("quantize of a language model's folder reads its tokenizer") {
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "text_alone";
    const fs::path out = fs::path(CAPTION_TEST_TMP) / "text_alone_out";
    fs::remove_all(folder);
    fs::create_directories(folder);
    write_text(folder / "config.json", R"({"model_type": "llama", "vocab_size": 8})");
    const auto quantize = [&] {
      const Finished made =
          run_cli({"quantize", folder.string(), "-o", out.string(), "--format", "nf4"});
      CHECK(made.exit_code == 3);
      CHECK(!fs::exists(out));
      return made.err;
    };
    CHECK(contains(quantize(), folder.string() + ": has no tokenizer"));
    for (const char* const name : {"tokenizer.json", "tokenizer_config.json"}) {
      fs::copy(fs::path(CAPTION_SOURCE_DIR "/samples/demo-model") / name, folder);
    }
    const std::string of_other = quantize();
    CAPTURE(of_other);
    CHECK(contains(of_other, folder.string() + ": the tokenizer is another model's: it has "));
    CHECK(contains(of_other, "ids, the embedding 8 rows; download the folder again"));
  }

  TEST_CASE("quantize refuses what is no plain folder in the same words for every format") {
    const testing::DrawnGguf drawn(kGoldens / "qwen3_vl_q8_0");
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "quantised_already";
    const fs::path out = fs::path(CAPTION_TEST_TMP) / "quantised_already_out";
    fs::remove_all(folder);
    REQUIRE(run_cli({"quantize", CAPTION_SOURCE_DIR "/samples/demo-model", "-o", folder.string(),
                     "--format", "nf4"})
                .exit_code == 0);
    const struct {
      fs::path model;
      int exit_code;
      const char* message;
    } kRows[] = {
        {drawn.path() / "model.gguf", 2,
         "is a GGUF file; quantize takes the model that it was made of"},
        {drawn.path(), 3, "holds GGUF files; quantize takes the model that they were made of"},
        {folder, 3, "is quantised already (bitsandbytes, 4 bits)"}};
    for (const auto& row : kRows) {
      for (const char* const format : {"gguf-f16", "w8a8"}) {
        CAPTURE(std::string(row.message));
        CAPTURE(std::string(format));
        fs::remove_all(out);
        const Finished made =
            run_cli({"quantize", row.model.string(), "-o", out.string(), "--format", format});
        CHECK(made.exit_code == row.exit_code);
        CHECK(contains(made.err, row.message));
        CHECK(!fs::exists(out));
      }
    }
  }

  TEST_CASE("a text_config without model_type is the family's own, as for run") {
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "untyped";
    const fs::path out = fs::path(CAPTION_TEST_TMP) / "untyped_gguf";
    fs::remove_all(folder);
    fs::remove_all(out);
    fs::copy(CAPTION_SOURCE_DIR "/samples/demo-model", folder);
    std::string config = read_text(folder / "config.json");
    const std::string key = "\"model_type\": \"llama\",";
    REQUIRE(contains(config, key));
    write_text(folder / "config.json", config.erase(config.find(key), key.size()));
    const Finished made =
        run_cli({"quantize", folder.string(), "-o", out.string(), "--format", "gguf-f16"});
    CAPTURE(made.err);
    CHECK(made.exit_code == 0);
    const std::vector<std::string> in_f32 = {"--dtype", "f32"};
    // bf16 weights of this size have the same values in f16.
    CHECK(caption_of(run_model(out, in_f32)) == caption_of(run_model(folder, in_f32)));
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
    const fs::path other = drawn.path() / "mmproj-model-f16.gguf";
    fs::copy_file(tower, other);
    const Finished several = run_cli({"inspect", drawn.path().string()});
    CAPTURE(several.err);
    const std::string line = "this of 2 mmproj files is used";
    CHECK(several.exit_code == 0);
    CHECK(contains(several.err, line));
    CHECK(several.err.find(line) == several.err.rfind(line));
    fs::remove(other);
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
