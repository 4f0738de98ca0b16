// A system prompt and examples, from the command line and in presets: shared, recorded, and refused
// where they are broken or another run's.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/app/folders.h"
#include "tests/app/process.h"
#include "tests/support/drawn_checkpoint.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;
using testing::DrawnCheckpoint;

const std::string kCity = "city-000-h264.mp4";
const std::string kBridge = "bridge-006-h264.mp4";

// A folder with a small model of random weights, an example video and a preset.
class Archive {
 public:
  Archive() {
    fs::copy_file(fs::canonical(sample_video(kBridge)), path("shown.mp4"));
    write_preset("{video: shown.mp4, caption: 다리가 보인다.}");
    // A byte order mark, as Notepad writes it, is no part of the first line.
    write_text(path("examples.jsonl"),
               "\xEF\xBB\xBF{\"caption\": \"비가 온다.\", \"prompt\": \"왜?\"}\n"
               "{\"video\": \"shown.mp4\", \"caption\": \"다리가 보인다.\"}\n");
  }

  std::string path(const char* name) const { return (folder_.path() / name).string(); }
  void write_preset(const std::string& example) const {
    write_text(path("mine.yaml"), "model: " + model_.path().string() +
                                      "\nquantization: {weights: f32}\n"
                                      "engine: {prefix_cache: true, max_num_seqs: 1}\n"
                                      "video: {num_frames: 4}\n"
                                      "generation:\n  max_new_tokens: 8\n  system: 한국어로.\n"
                                      "  examples:\n    - {caption: 비가 온다., prompt: \"왜?\"}\n"
                                      "    - " +
                                      example + "\n");
  }
  Finished run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"run", "--preset", path("mine.yaml")});
    return run_cli(arguments);
  }

 private:
  TemporaryFolder folder_;
  DrawnCheckpoint model_{fs::path(CAPTION_SOURCE_DIR) / "tests/golden/internvl/vit_300m_f32"};
};

TEST_SUITE("app/conversation") {
  TEST_CASE("paths of examples that come through a FIFO are relative to the working folder") {
    const TemporaryFolder folder;
    const fs::path work = folder.path() / "work";
    const fs::path elsewhere = folder.path() / "elsewhere";
    fs::create_directory(work);
    fs::create_directory(elsewhere);
    fs::copy_file(fs::canonical(small_video(kBridge)), work / "shown.mp4");
    const std::string fifo = (elsewhere / "examples").string();
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    std::thread writer(
        [&] { write_text(fifo, "{\"video\": \"shown.mp4\", \"caption\": \"다리가 보인다.\"}\n"); });
    const Finished finished =
        run_cli_in({.folder = work}, {"run", "--frames", "2", "--max-new-tokens", "2", "--examples",
                                      fifo, small_video(kCity).string()});
    writer.join();
    CHECK_MESSAGE(finished.exit_code == 0, finished.err);
  }

  TEST_CASE("examples of a preset are shown before each clip, share their pages, and count") {
    const Archive archive;
    const std::string out = archive.path("c.jsonl");
    const std::string city = sample_video(kCity).string();
    const std::string sea = sample_video("sea-003-av1.mkv").string();
    const Finished first = archive.run({"-o", out, city, sea});
    CAPTURE(first.err);
    CHECK(first.exit_code == 0);
    CHECK(contains(first.err, "run: prefix cache: "));
    const std::vector<records::Record> records = parse_records(read_text(out));
    REQUIRE(records.size() == 2);
    const std::string manifest = read_text(out + ".manifest.json");
    CAPTURE(manifest);
    CHECK(contains(manifest, "\"system\": \"한국어로.\""));
    CHECK(contains(manifest, "\"example.1\": \"{\\\"prompt\\\": \\\"왜?\\\""));
    CHECK(contains(manifest, "\"example.2\": \"{\\\"video\\\": \\\""));
    CHECK_FALSE(contains(manifest, "shown.mp4"));

    const Finished alone =
        run_cli({"run", "--preset", archive.path("mine.yaml"), "--examples",
                 archive.path("examples.jsonl"), "-o", archive.path("d.jsonl"), city});
    CAPTURE(alone.err);
    CHECK(alone.exit_code == 0);
    const std::vector<records::Record> same = parse_records(read_text(archive.path("d.jsonl")));
    REQUIRE(same.size() == 1);
    int num_same = 0;
    for (const records::Record& record : records) {
      if (record.video != same[0].video) continue;
      ++num_same;
      CHECK(record.caption == same[0].caption);
    }
    CHECK(num_same == 1);

    const Finished dry = archive.run({"-o", archive.path("e.jsonl"), city, "--dry-run"});
    CAPTURE(dry.out);
    CHECK(dry.exit_code == 0);
    CHECK(contains(dry.out, "before    a system prompt and 2 examples, "));
    CHECK(contains(dry.out, " tokens\n"));
  }

  TEST_CASE("another example on the same output is refused and named, another name of it is not") {
    const Archive archive;
    const std::string out = archive.path("c.jsonl");
    const std::string city = sample_video(kCity).string();
    CHECK(archive.run({"-o", out, city}).exit_code == 0);
    fs::rename(archive.path("shown.mp4"), archive.path("moved.mp4"));
    archive.write_preset("{video: moved.mp4, caption: 다리가 보인다.}");
    CHECK(archive.run({"-o", out, city}).exit_code == 0);
    const auto refused = [&](const std::string& what) {
      const Finished run = archive.run({"-o", out, city});
      CAPTURE(run.err);
      CHECK(run.exit_code == 2);
      CHECK(contains(run.err, what));
    };
    archive.write_preset("{video: moved.mp4, caption: 강이 보인다.}");
    refused("example.2 is ");
    fs::copy_file(fs::canonical(sample_video(kCity)), archive.path("shown.mp4"));
    archive.write_preset("{video: shown.mp4, caption: 다리가 보인다.}");
    refused("example.2 is ");
    archive.write_preset("{caption: 다리가 보인다.}");
    refused("example.2 is ");
    const Finished other = archive.run({"-o", out, city, "--system", "짧게."});
    CHECK(other.exit_code == 2);
    CHECK(contains(other.err, "system is \"한국어로.\" there and \"짧게.\" now"));
  }

  TEST_CASE("a broken example ends the run before anything is written") {
    const Archive archive;
    const std::string out = archive.path("c.jsonl");
    const std::string city = sample_video(kCity).string();
    write_text(archive.path("shown.mp4"), "no film");
    for (const bool is_dry : {false, true}) {
      std::vector<std::string> arguments = {"-o", out, city};
      if (is_dry) arguments.emplace_back("--dry-run");
      const Finished run = archive.run(arguments);
      CAPTURE(run.err);
      CHECK(run.exit_code == 3);
      CHECK(contains(run.err, "example 2: " + archive.path("shown.mp4")));
      CHECK_FALSE(fs::exists(out));
    }
    const Finished plan = run_cli(
        {"plan", "--preset", archive.path("mine.yaml"), "--bandwidth", "20", "--flops", "1000"});
    CAPTURE(plan.out);
    CHECK(plan.exit_code == 3);
    CHECK(contains(plan.out, "example 2: "));
    const Finished file = run_cli({"run", "--examples", archive.path("nothing.jsonl"), city});
    CHECK(file.exit_code == 2);
    CHECK(contains(file.err, "nothing.jsonl"));
  }

  TEST_CASE("a conversation that is too long names what of it takes the tokens") {
    const Archive archive;
    const std::string city = sample_video(kCity).string();
    std::string words;
    for (int i = 0; i < 700; ++i) words += "비가 온다. ";
    const std::string examples = archive.path("long.jsonl");
    write_text(examples, "{\"caption\": \"" + words + "\"}\n");
    struct Case {
      std::vector<std::string> flags;
      const char* of_run;
      const char* advice_of_run;
      const char* of_plan;
      const char* advice_of_plan;
    };
    const Case cases[] = {
        {{"--examples", examples},
         "), 1 example (",
         "; give fewer or shorter examples, or ",
         " of examples, ",
         "; use fewer or shorter examples (--examples)\n"},
        {{"--examples", archive.path("examples.jsonl"), "--system", words},
         " a system prompt (",
         "; give a shorter system prompt, or ",
         " of the system prompt, ",
         "; use a shorter system prompt (--system)\n"},
    };
    for (const Case& c : cases) {
      std::vector<std::string> arguments = {"-o", archive.path("c.jsonl"), city};
      arguments.insert(arguments.end(), c.flags.begin(), c.flags.end());
      const Finished run = archive.run(arguments);
      CAPTURE(run.err);
      CHECK(run.exit_code == 2);
      CHECK(contains(run.err, c.of_run));
      CHECK(contains(run.err, c.advice_of_run));
      std::vector<std::string> planned = {
          "plan", "--preset", archive.path("mine.yaml"), "--bandwidth", "20", "--flops", "1000"};
      planned.insert(planned.end(), c.flags.begin(), c.flags.end());
      const Finished plan = run_cli(planned);
      CAPTURE(plan.out);
      CHECK(plan.exit_code == 2);
      CHECK(contains(plan.out, c.of_plan));
      CHECK(contains(plan.out, c.advice_of_plan));
    }
  }

  TEST_CASE("the demonstration model warns that it was trained for neither") {
    const Archive archive;
    const std::string city = sample_video(kCity).string();
    const Finished run = run_cli({"run", "--system", "짧게.", city});
    CAPTURE(run.err);
    CHECK(run.exit_code == 0);
    CHECK(contains(run.err, "never trained with a system prompt or examples"));
    CHECK_FALSE(contains(run_cli({"run", city}).err, "never trained with"));
  }

  TEST_CASE("a chat template that is not the one rendered is warned of once, with its file") {
    const DrawnCheckpoint model(fs::path(CAPTION_SOURCE_DIR) /
                                "tests/golden/internvl/vit_300m_f32");
    const std::string file = (model.path() / "chat_template.jinja").string();
    const std::string city = sample_video(kCity).string();
    const std::vector<std::string> command = {
        "run", "--model", model.path().string(), "--frames", "1", "--max-new-tokens", "2", city};
    write_text(file, "{{ messages }}<|think|>");
    const Finished other = run_cli(command);
    CAPTURE(other.err);
    CHECK(other.exit_code == 0);
    const std::size_t at = other.err.find(file + ": this chat template is not run");
    CHECK(at != std::string::npos);
    CHECK(other.err.find("this chat template", at + file.size() + 3) == std::string::npos);
    CHECK(contains(other.err, "prompts are \"<|im_start|>user\\n<video>\\nPROMPT<|im_end|>\\n"));
    fs::remove(file);
    CHECK_FALSE(contains(run_cli(command).err, "chat template"));
  }
}

}  // namespace
}  // namespace caption::test
