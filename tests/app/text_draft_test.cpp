// Tests drafts of a language model alone, which sees no video: a folder, a GGUF file of it and one
// of another vocabulary.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tests/app/folders.h"
#include "tests/app/process.h"
#include "tests/support/drawn_checkpoint.h"
#include "tests/video/make_clip.h"
#include "weights/checkpoint.h"
#include "weights/safetensors_writer.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

using Arguments = std::vector<std::string>;

std::string source_path(const std::string& name) {
  return (fs::path(CAPTION_SOURCE_DIR) / name).string();
}

// The object under "text_config" of a captioner's configuration.
std::string text_config_of(const fs::path& captioner) {
  const std::string config = read_text(captioner / "config.json");
  const std::size_t begin = config.find('{', config.find("\"text_config\""));
  std::size_t end = begin;
  int depth = 0;
  do {
    REQUIRE(end < config.size());
    depth += config[end] == '{' ? 1 : config[end] == '}' ? -1 : 0;
    ++end;
  } while (depth > 0);
  return config.substr(begin, end - begin);
}

void replace(std::string& text, const std::string& old, const std::string& by) {
  const std::size_t at = text.find(old);
  REQUIRE(at != std::string::npos);
  text.replace(at, old.size(), by);
}

// Makes the folder of a captioner's language model, whose tensors have the prefix there.
void make_language_model(const fs::path& captioner, const std::string& prefix,
                         const std::string& new_prefix, const std::string& config,
                         const fs::path& folder) {
  fs::create_directories(folder);
  for (const fs::directory_entry& file : fs::directory_iterator(captioner)) {
    const std::string name = file.path().filename().string();
    if (name.find("token") != std::string::npos || name == "vocab.json" || name == "merges.txt") {
      fs::copy(file.path(), folder);
    }
  }
  write_text(folder / "config.json", config);
  const auto from = weights::Checkpoint::open(captioner);
  std::vector<weights::PlannedTensor> tensors;
  std::map<std::string, std::string> name_there;
  for (const std::string& name : from.names()) {
    if (name.find(prefix) != 0) continue;
    tensors.push_back(weights::plan_copy(from, name));
    tensors.back().name = new_prefix + name.substr(prefix.size());
    name_there[tensors.back().name] = name;
  }
  REQUIRE_FALSE(tensors.empty());
  weights::SafetensorsWriter writer(folder / "model.safetensors", tensors);
  for (const weights::PlannedTensor& tensor : tensors) {
    const std::string& name = name_there.at(tensor.name);
    const ConstView view = from.require(name, from.shape(name).value());
    writer.write(tensor.name,
                 std::as_bytes(std::span(static_cast<const char*>(view.raw()),
                                         static_cast<std::size_t>(tensor.size_bytes))));
  }
  writer.finish();
}

std::map<std::string, std::string> captions_of(const Finished& finished) {
  std::map<std::string, std::string> captions;
  for (const records::Record& record : parse_records(finished.out)) {
    CHECK(captions.emplace(record.video, record.caption).second);
  }
  return captions;
}

Finished caption(Arguments options) {
  options.insert(options.begin(),
                 {"run", small_video("").string(), "--frames", "2", "--limit", "4"});
  return run_cli(options);
}

TEST_SUITE("app/text_draft") {
  TEST_CASE("a language model, which sees no video, guesses and changes no caption") {
    const TemporaryFolder folder;
    const fs::path model = folder.path() / "language";
    make_language_model(source_path("samples/demo-model"), "language_model.", "",
                        text_config_of(source_path("samples/demo-model")), model);
    const fs::path files = folder.path() / "gguf";
    REQUIRE(run_cli({"quantize", model.string(), "-o", files.string(), "--format", "gguf-q8_0"})
                .exit_code == 0);
    const testing::DrawnCheckpoint qwen(source_path("tests/golden/qwen3_vl/tied_bf16"));
    std::string config = text_config_of(qwen.path());
    replace(config, "qwen3_vl_text", "qwen3");
    replace(config, "\"rope_scaling\"", "\"rope_scaling\": null, \"rope_scaling_of_captioner\"");
    const fs::path other = folder.path() / "other";
    make_language_model(qwen.path(), "model.language_model.", "model.", config, other);

    const std::string preset = (folder.path() / "forced.yaml").string();
    write_text(preset, "model: " + source_path("samples/demo-model") +
                           "\nspeculative:\n  method: model\n  adaptive: false\n");
    const auto expected = captions_of(caption({}));
    CHECK(expected.size() == 4);
    for (const fs::path& draft : {model, files, files / "language-Q8_0.gguf", other}) {
      CAPTURE(draft);
      const Finished finished = caption({"--preset", preset, "--draft-model", draft.string()});
      CAPTURE(finished.err);
      CHECK(finished.exit_code == 0);
      CHECK(captions_of(finished) == expected);
      CHECK(contains(finished.err, "is a language model; it guesses from the question"));
      const std::size_t at = finished.err.find("per step; model: ");
      REQUIRE(at != std::string::npos);
      const bool is_of_demo = draft != other;
      CHECK(contains(finished.err.substr(at), "model: 0 of ") != is_of_demo);
      const Finished planned = run_cli({"plan", "--bandwidth", "100", "--flops", "1000", "--preset",
                                        preset, "--draft-model", draft.string()});
      CHECK(planned.exit_code == 0);
      CHECK(contains(planned.out, "draft model "));
    }
  }

  TEST_CASE("a language model captions nothing by itself, and a broken one is named") {
    const TemporaryFolder folder;
    const fs::path model = folder.path() / "language";
    make_language_model(source_path("samples/demo-model"), "language_model.", "",
                        text_config_of(source_path("samples/demo-model")), model);
    const Finished alone = caption({"--model", model.string()});
    CHECK(alone.exit_code == 4);
    CHECK(contains(alone.err, "model_type \"llama\" is not supported by this build"));
    fs::remove(model / "tokenizer.model");
    fs::remove(model / "tokenizer.json");
    const Finished broken = caption({"--drafts", "model", "--draft-model", model.string()});
    CHECK(broken.exit_code == 3);
    CHECK(broken.out.empty());
    CHECK(contains(broken.err, "draft model " + model.string() + ": "));
  }
}

}  // namespace
}  // namespace caption::test
