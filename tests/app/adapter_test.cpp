// The user's way with adapters: a composed model of a preset with --adapter, chosen by clips of a
// list and by prompts, continued, and refused with other adapters.
#include <doctest/doctest.h>

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
using testing::DrawnCheckpoint;

fs::path golden(const char* name) { return fs::path(CAPTION_SOURCE_DIR) / "tests/golden" / name; }

// A preset of a composed model, and three adapters of its language model.
class ComposedModel {
 public:
  ComposedModel() {
    const fs::path parts = golden("model/composed");
    write_text(preset(), "model:\n  vision: " + (parts / "vision").string() +
                             "\n  projector: " + (parts / "projector_mlp.safetensors").string() +
                             "\n  llm: " + (parts / "llm").string() +
                             "\n  prompt: \"{video}{prompt}\"\n"
                             "quantization: {weights: f32}\n"
                             "engine: {prefix_cache: true}\n"
                             "generation: {max_new_tokens: 12}\nvideo: {num_frames: 2}\n");
  }

  std::string preset() const { return place_ / "mine.yaml"; }
  std::string output() const { return place_ / "out.jsonl"; }
  std::string file(const char* name, const std::string& text) const {
    write_text(place_ / name, text);
    return place_ / name;
  }
  Finished run(std::vector<std::string> arguments, const std::string& list = "") const {
    arguments.insert(arguments.begin(), {"run", "--preset", preset()});
    return run_cli(arguments, list);
  }

  const DrawnCheckpoint a{golden("lora/composed_llm")};
  const DrawnCheckpoint b{golden("lora/composed_mlp")};

 private:
  struct Place {
    TemporaryFolder folder;
    std::string operator/(const char* name) const { return (folder.path() / name).string(); }
  };
  Place place_;
};

const Record& record_of(const std::vector<Record>& records, const std::string& video,
                        const std::string& prompt = "") {
  for (const Record& record : records) {
    if (record.video == video && record.prompt == prompt) return record;
  }
  FAIL("no record of " << video);
  return records.front();
}

TEST_SUITE("app/adapter") {
  TEST_CASE("clips of a list choose adapters, and each caption is that of its adapter alone") {
    const ComposedModel model;
    const std::string city = sample_video("city-000-h264.mp4").string();
    const std::string sea = sample_video("sea-003-av1.mkv").string();
    const std::string field = sample_video("field-008-vp9.webm").string();
    const std::string list = city + "\n{\"video\": \"" + sea + "\", \"adapter\": \"a\"}\n" +
                             "{\"video\": \"" + field + "\", \"adapter\": \"b\"}\n";
    const std::vector<std::string> adapters = {"--adapter", "a=" + model.a.path().string(),
                                               "--adapter", "b=" + model.b.path().string()};
    std::vector<std::string> arguments = {"-", "-o", model.output()};
    arguments.insert(arguments.end(), adapters.begin(), adapters.end());
    const Finished first = model.run(arguments, list);
    CAPTURE(first.err);
    CHECK(first.exit_code == 0);
    const std::vector<Record> records = parse_records(read_text(model.output()));
    REQUIRE(records.size() == 3);
    CHECK(record_of(records, city).adapter.empty());
    CHECK(record_of(records, sea).adapter == "a");
    CHECK(record_of(records, field).adapter == "b");

    const auto alone = [&](const std::string& video, const DrawnCheckpoint* adapter) {
      std::vector<std::string> one = {video};
      if (adapter != nullptr) one.insert(one.end(), {"--adapter", adapter->path().string()});
      return parse_records(model.run(one).out).at(0).caption;
    };
    CHECK(record_of(records, city).caption == alone(city, nullptr));
    CHECK(record_of(records, sea).caption == alone(sea, &model.a));
    CHECK(record_of(records, field).caption == alone(field, &model.b));
    CHECK(record_of(records, sea).caption != alone(sea, nullptr));

    // The same command has nothing to do; another choice for a clip makes another caption.
    const std::string written = read_text(model.output());
    CHECK(model.run(arguments, list).exit_code == 0);
    CHECK(read_text(model.output()) == written);
    CHECK(model.run(arguments, "{\"video\": \"" + sea + "\", \"adapter\": \"b\"}\n").exit_code ==
          0);
    const std::vector<Record> more = parse_records(read_text(model.output()));
    REQUIRE(more.size() == 4);
    CHECK(more.back().adapter == "b");
    CHECK(more.back().caption == alone(sea, &model.b));

    // Other adapters on the same output are another configuration.
    const Finished other =
        model.run({"-", "-o", model.output(), "--adapter", "a=" + model.b.path().string(),
                   "--adapter", "b=" + model.b.path().string()},
                  list);
    CHECK(other.exit_code == 2);
    CHECK(other.err.find("adapter.a is") != std::string::npos);
  }

  TEST_CASE("prompts choose adapters, and an adapter without a name is part of the model") {
    const ComposedModel model;
    const std::string city = sample_video("city-000-h264.mp4").string();
    const std::string prompts =
        model.file("prompts",
                   "plain\t무엇이 보입니까?\n"
                   R"({"name": "styled", "prompt": "무엇이 보입니까?", "adapter": "a"})"
                   "\n");
    const Finished finished =
        model.run({city, "--prompts", prompts, "--adapter", "a=" + model.a.path().string()});
    CHECK(finished.exit_code == 0);
    const std::vector<Record> records = parse_records(finished.out);
    REQUIRE(records.size() == 2);
    CHECK(record_of(records, city, "plain").adapter.empty());
    CHECK(record_of(records, city, "styled").adapter == "a");
    CHECK(record_of(records, city, "plain").caption != record_of(records, city, "styled").caption);

    CHECK(model.run({city, "-o", model.output()}).exit_code == 0);
    const Finished merged =
        model.run({city, "-o", model.output(), "--adapter", model.a.path().string()});
    CHECK(merged.exit_code == 2);
    CHECK(merged.err.find("model is") != std::string::npos);
  }

  TEST_CASE("what cannot be done with adapters is said in one sentence") {
    const ComposedModel model;
    const std::string city = sample_video("city-000-h264.mp4").string();
    const std::string a = model.a.path().string();
    struct Case {
      std::vector<std::string> arguments;
      std::string list;
      int exit_code;
      const char* message;
    };
    const Case cases[] = {
        {{city, "--adapter", a, "--adapter", a}, "", 2, "at most one applies to every clip"},
        {{"-", "--adapter", "a=" + a},
         "{\"video\": \"" + city + "\", \"adapter\": \"x\"}",
         2,
         "no adapter is named \"x\"; there are a"},
        {{city, "--adapter", "no/such/folder"}, "", 3, "no/such/folder"},
        {{city, "--model", (fs::path(CAPTION_SOURCE_DIR) / "samples/demo-model").string(),
          "--adapter", a},
         "",
         3,
         "another base model's"},
    };
    for (const Case& c : cases) {
      const Finished finished = model.run(c.arguments, c.list);
      CAPTURE(finished.err);
      CHECK(finished.exit_code == c.exit_code);
      CHECK(finished.err.find(c.message) != std::string::npos);
    }
  }

  TEST_CASE("an adapter that nothing chooses is named") {
    const ComposedModel model;
    const std::string city = sample_video("city-000-h264.mp4").string();
    const std::vector<std::string> adapters = {"--adapter", "used=" + model.a.path().string(),
                                               "--adapter", "spare=" + model.b.path().string()};
    for (const char* const option : {"-q", "--dry-run"}) {
      std::vector<std::string> arguments = {"-", option};
      arguments.insert(arguments.end(), adapters.begin(), adapters.end());
      const Finished finished =
          model.run(arguments, "{\"video\": \"" + city + "\", \"adapter\": \"used\"}\n");
      CAPTURE(finished.err);
      CHECK(finished.exit_code == 0);
      CHECK(finished.err.find("no clip and no prompt chooses the adapter \"spare\"") !=
            std::string::npos);
      CHECK(finished.err.find("\"used\"") == std::string::npos);
    }
  }

  TEST_CASE("eval scores the captions of one adapter") {
    const TemporaryFolder folder;
    const std::string captions = (folder.path() / "c.jsonl").string();
    const std::string references = (folder.path() / "r.jsonl").string();
    write_text(captions,
               "{\"video\": \"1.mp4\", \"caption\": \"푸른 하늘\", \"adapter\": \"a\"}\n"
               "{\"video\": \"1.mp4\", \"caption\": \"넓은 바다\", \"adapter\": \"b\"}\n");
    write_text(references, "{\"video\": \"1.mp4\", \"caption\": \"푸른 하늘\"}\n");
    const std::vector<std::string> arguments = {
        "eval", "--references", references, captions, "--metrics", "bleu-4", "--resamples", "10"};
    const Finished refused = run_cli(arguments);
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find("choose one with --adapter: \"a\", \"b\"") != std::string::npos);
    const auto score_of = [&](const char* adapter) {
      std::vector<std::string> all = arguments;
      all.insert(all.end(), {"--adapter", adapter});
      const Finished finished = run_cli(all);
      CAPTURE(finished.err);
      CHECK(finished.exit_code == 0);
      return finished.out;
    };
    CHECK(score_of("a") != score_of("b"));
  }

  TEST_CASE("inspect says what an adapter changes") {
    const ComposedModel model;
    const DrawnCheckpoint adapter(golden("lora/llama_pattern"));
    const Finished finished = run_cli(
        {"inspect", golden("model/llama_bf16").string(), "--adapter", adapter.path().string()});
    CHECK(finished.exit_code == 0);
    CHECK(finished.out.find("adapter") != std::string::npos);
    CHECK(finished.out.find("modules, rank 2 to 5") != std::string::npos);
  }
}

}  // namespace
}  // namespace caption::test
