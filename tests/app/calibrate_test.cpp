// Tests of `caption-cli quantize --calibrate`: from videos to a checkpoint that captions, what
// continues a killed run, and what is refused.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/app/folders.h"
#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

fs::path source() { return CAPTION_SOURCE_DIR; }

// quantize of the demonstration model, calibrated with three sample clips and their references.
std::vector<std::string> command(const fs::path& output, const std::string& format,
                                 const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"quantize", (source() / "samples/demo-model").string(),
                                  "-o",       output.string(),
                                  "--format", format};
  all.insert(all.end(), more.begin(), more.end());
  all.insert(all.end(), {"--references", (source() / "samples/references.jsonl").string(),
                         "--calibrate", sample_video("city-000-h264.mp4").string(),
                         sample_video("river-012-h264.mp4").string(),
                         sample_video("bridge-006-h264.mp4").string()});
  return all;
}

std::size_t count_layers(const fs::path& folder) {
  std::size_t count = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find("layer-") != std::string::npos && name.ends_with(".safetensors")) ++count;
  }
  return count;
}

TEST_SUITE("app/calibrate") {
  TEST_CASE("of a film that is cut off is said so, as run says it") {
    const TemporaryFolder folder;
    const std::string whole = read_text(sample_video("city-004-h264.mkv"));
    const fs::path cut = folder.path() / "cut.mkv";
    write_text(cut, whole.substr(0, whole.size() * 6 / 10));
    const std::vector<records::Record> records =
        parse_records(run_cli({"run", "-q", cut.string()}).out);
    REQUIRE(records.size() == 1);
    REQUIRE(records.front().warnings.size() == 1);
    CHECK(contains(records.front().warnings.front(), "the file seems cut off"));
    const Finished made = run_cli({"quantize", (source() / "samples/demo-model").string(), "-o",
                                   (folder.path() / "out").string(), "--format", "gptq",
                                   "--calibrate", cut.string()});
    CHECK(made.exit_code == 0);
    CHECK(contains(made.err,
                   "warning: quantize: " + cut.string() + ": " + records.front().warnings.front()));
  }

  TEST_CASE("a model calibrated with videos captions, and its folder says how it was made") {
    const TemporaryFolder folder;
    for (const std::string format : {"awq", "gptq"}) {
      CAPTURE(format);
      const fs::path output = folder.path() / format;
      std::vector<std::string> more = {"--group-size", "64"};
      if (format == "gptq") more.push_back("--act-order");
      const Finished made = run_cli(command(output, format, more));
      CHECK(made.exit_code == 0);
      CHECK(made.out.empty());
      CHECK(contains(made.err, "of 3 prompts, 3 with answers, on 3 videos"));
      CHECK(contains(made.err, "28 matrices in " + format));
      const std::string config = read_text(output / "config.json");
      CHECK(contains(config, "\"quant_method\": \"" + format + "\""));
      CHECK(contains(config, "\"group_size\": 64"));
      if (format == "gptq") CHECK(contains(config, "\"desc_act\": true"));
      const std::string manifest = read_text(output / "caption-cli.quantize.json");
      for (const char* const key :
           {"calibration clips", "calibration prompts", "calibration answers",
            "calibration arithmetic", "calibration tokens"}) {
        CHECK(contains(manifest, key));
      }
      CHECK(count_layers(output) == 0);
      const Finished captioned = run_cli({"run", "-q", "--model", output.string(), "-o",
                                          (folder.path() / "c.jsonl").string(), "--overwrite",
                                          sample_video("city-000-h264.mp4").string()});
      CHECK(captioned.exit_code == 0);
      const auto records = parse_records(read_text(folder.path() / "c.jsonl"));
      REQUIRE(records.size() == 1);
      CHECK(records.front().status == records::Status::kOk);
      CHECK(contains(records.front().caption, "도시"));
    }
  }

  TEST_CASE("SIGKILL and Ctrl-C within and after layers leave what the same command completes") {
    const TemporaryFolder folder;
    for (const std::string format : {"gptq", "awq"}) {
      CAPTURE(format);
      const auto with_one_clip = [&](const fs::path& output) {
        std::vector<std::string> all = command(output, format, {"-q"});
        all.resize(all.size() - 2);
        return all;
      };
      const fs::path whole = folder.path() / "whole";
      fs::remove_all(whole);
      REQUIRE(run_cli(with_one_clip(whole)).exit_code == 0);
      const Files expected = files_of(whole);
      int num_ended = 0;
      // Sent when so many layers are written; before the first one, within it.
      constexpr std::pair<int, std::size_t> kEndings[] = {
          {SIGKILL, 0}, {SIGTERM, 0}, {SIGKILL, 1}, {SIGINT, 2}};
      for (const auto& [signal, wanted] : kEndings) {
        CAPTURE(signal);
        CAPTURE(wanted);
        const fs::path output = folder.path() / "part";
        fs::remove_all(output);
        const pid_t child = start_cli(with_one_clip(output), folder.path() / "stderr");
        const fs::path manifest = output / "caption-cli.quantize.json";
        const auto is_early = [&] {
          return !fs::exists(manifest) || count_layers(output) < wanted;
        };
        for (int i = 0; i < 600'000 && is_early(); ++i) {
          if (fs::exists(output / "config.json")) break;  // a fast machine was first
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        ::kill(child, signal);
        const int code = wait_for(child);
        CHECK((code == 0 || code == (signal == SIGKILL ? 128 + SIGKILL : 130)));
        if (code != 0) ++num_ended;
        if (code == 130) {
          CHECK(contains(read_text(folder.path() / "stderr"), "the same command continues"));
        }
        CHECK(run_cli(with_one_clip(output)).exit_code == 0);
        CHECK(files_of(output) == expected);
      }
      CHECK(num_ended > 0);
    }
  }

  TEST_CASE("too few tokens or videos are said") {
    const TemporaryFolder folder;
    const auto calibrate = [&](const std::vector<fs::path>& videos, const char* tokens) {
      std::vector<std::string> arguments = {"quantize",
                                            (source() / "samples/demo-model").string(),
                                            "--format",
                                            "gptq",
                                            "--group-size",
                                            "64",
                                            "-o",
                                            (folder.path() / tokens).string(),
                                            "--calibration-tokens",
                                            tokens,
                                            "--calibrate"};
      for (const fs::path& video : videos) arguments.push_back(video.string());
      const Finished finished = run_cli(arguments);
      CHECK(finished.exit_code == 0);
      return finished.err;
    };
    const std::vector<fs::path> videos = sample_videos();
    CHECK(contains(
        calibrate({videos.begin(), videos.begin() + 5}, "1"),
        " on 4 videos; more than --calibration-tokens 1, since at least 4 videos are used\n"));
    CHECK(contains(calibrate({videos.begin(), videos.begin() + 5}, "30000"), " on 5 videos\n"));
    CHECK(contains(calibrate({videos.front()}, "20000"),
                   " on 1 video; it should have at least 4, give more with --calibrate\n"));
  }

  TEST_CASE("other answers and other clips are refused by name") {
    const TemporaryFolder folder;
    const fs::path output = folder.path() / "model";
    REQUIRE(run_cli(command(output, "gptq", {"-q"})).exit_code == 0);
    std::vector<std::string> other = command(output, "gptq", {"-q"});
    const auto references = std::find(other.begin(), other.end(), "--references");
    other.erase(references, references + 2);
    const Finished without = run_cli(other);
    CHECK(without.exit_code == 2);
    CHECK(contains(without.err, "made with other captions (--references)"));
    other = command(output, "gptq", {"-q"});
    other.pop_back();
    const Finished fewer = run_cli(other);
    CHECK(fewer.exit_code == 2);
    CHECK(contains(fewer.err, "made with other videos (--calibrate)"));
  }

  TEST_CASE("references of other videos are refused with a name of theirs and one looked for") {
    const TemporaryFolder folder;
    const fs::path file = folder.path() / "references.jsonl";
    write_text(file, "{\"video\": \"elsewhere/other.mp4\", \"caption\": \"하나\"}\n");
    std::vector<std::string> other = command(folder.path() / "model", "gptq");
    *(std::find(other.begin(), other.end(), "--references") + 1) = file.string();
    const Finished finished = run_cli(other);
    CHECK(finished.exit_code == 3);
    CAPTURE(finished.err);
    CHECK(contains(finished.err,
                   "--references " + file.string() +
                       ": no reference is of a video of --calibrate; looked for by name: "
                       "city-000-h264.mp4 and 2 more; in the references: other.mp4; name"));
    CHECK_FALSE(fs::exists(folder.path() / "model"));
  }

  TEST_CASE("an output that cannot be continued is refused before a video is read") {
    const TemporaryFolder folder;
    const fs::path output = folder.path() / "model";
    REQUIRE(run_cli(command(output, "gptq", {"-q"})).exit_code == 0);
    const Files before = files_of(output);
    const auto refusal = [&](const std::vector<std::string>& arguments) {
      const Finished finished = run_cli(arguments);
      CHECK(finished.exit_code == 2);
      CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
      return finished.err;
    };
    CHECK(contains(refusal(command(output, "awq")), "made with --format gptq, not awq"));
    CHECK(contains(refusal(command(output, "gptq", {"--act-order"})), "without --act-order"));
    CHECK(contains(refusal(command(folder.path(), "gptq")), "is no file of this checkpoint"));
    const int lock = ::open(output.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(::flock(lock, LOCK_EX) == 0);
    CHECK(contains(refusal(command(output, "gptq")), "another caption-cli is writing to this"));
    ::close(lock);
    CHECK(files_of(output) == before);
  }

  TEST_CASE(
      "the language model of a composed model is calibrated with the preset's other parts, also of "
      "a preset from a pipe") {
    const TemporaryFolder folder;
    const fs::path parts = source() / "tests/golden/model/composed";
    const std::string text = "model:\n  vision: " + (parts / "vision").string() +
                             "\n  projector: " + (parts / "projector_mlp.safetensors").string() +
                             "\n  llm: elsewhere\n  prompt: \"{video} {prompt}\"\n";
    int pipe[2] = {-1, -1};
    REQUIRE(::pipe(pipe) == 0);
    REQUIRE(::write(pipe[1], text.data(), text.size()) == std::ssize(text));
    ::close(pipe[1]);
    const std::string output = (folder.path() / "llm").string();
    const Finished made = run_cli(
        {"quantize", (parts / "llm").string(), "-o", output, "--format", "gptq", "--group-size",
         "32", "--preset", "/dev/fd/" + std::to_string(pipe[0]), "--prompt", "무엇입니까?",
         "--prompt", "한 문장으로.", "--calibrate", sample_video("city-000-h264.mp4").string()});
    ::close(pipe[0]);
    CHECK(made.exit_code == 0);
    CHECK(contains(made.err, "of 2 prompts, 0 with answers, on 1 video"));
    CHECK(contains(made.err, "14 matrices in gptq"));
  }

  TEST_CASE("a bad file is one warning, and none that can be used is an error") {
    const TemporaryFolder folder;
    const fs::path bad = folder.path() / "bad.mp4";
    write_text(bad, "no video");
    std::vector<std::string> all = {"quantize",    (source() / "samples/demo-model").string(),
                                    "-o",          (folder.path() / "o").string(),
                                    "--format",    "gptq",
                                    "--calibrate", bad.string()};
    const Finished none = run_cli(all);
    CHECK(none.exit_code == 2);
    CHECK(contains(none.err, "the one file of --calibrate cannot be used"));
    CHECK_FALSE(fs::exists(folder.path() / "o"));
    all.push_back(sample_video("city-000-h264.mp4").string());
    const Finished one = run_cli(all);
    CHECK(one.exit_code == 0);
    CHECK(contains(one.err, "left out: " + bad.string()));
    CHECK(contains(one.err, "of 1 prompt, 0 with answers, on 1 video"));
  }

  TEST_CASE("what calibration is not for is refused in one sentence, before a video is read") {
    const TemporaryFolder folder;
    const std::string output = (folder.path() / "o").string();
    const std::string model = (source() / "samples/demo-model").string();
    const auto refusal = [&](std::vector<std::string> flags) {
      flags.insert(flags.begin(), {"quantize", model, "-o", output});
      const Finished finished = run_cli(flags);
      CHECK(finished.exit_code == 2);
      CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
      return finished.err;
    };
    const std::string clip = sample_video("city-000-h264.mp4").string();
    CHECK(contains(refusal({"--format", "nf4", "--calibrate", clip}),
                   "--calibrate is for awq and gptq; nf4 has no such option"));
    CHECK(contains(refusal({"--format", "gguf-q8_0", "--calibrate", clip}),
                   "--calibrate is for awq and gptq"));
    CHECK(contains(refusal({"--format", "awq", "--act-order", "--calibrate", clip}),
                   "--act-order is for gptq with --calibrate"));
    CHECK(contains(refusal({"--format", "gptq", "--damping", "0.1"}),
                   "--damping is for calibration; give videos with --calibrate"));
    CHECK(contains(refusal({"--format", "gptq", "--act-order"}),
                   "--act-order is for calibration; give videos with --calibrate"));
    CHECK(contains(refusal({"--format", "nf4", "--damping", "0.1"}),
                   "--damping is for gptq with --calibrate; nf4 has no such option"));
    CHECK(contains(refusal({"--format", "gptq", "--references", "r.jsonl"}),
                   "--references is for calibration"));
    CHECK(contains(refusal({"--format", "gptq", "--group-size", "48"}), "--group-size"));
    // What a run refuses of a preset.
    const fs::path preset = folder.path() / "own.yaml";
    std::ofstream(preset) << "generation: {num_beams: 4, temperature: 0.8}\n";
    CHECK(contains(refusal({"--format", "awq", "--preset", preset.string(), "--calibrate", clip}),
                   preset.string() + ":1"));
    std::ofstream(preset) << "speculative: {method: model}\n";
    CHECK(contains(refusal({"--format", "awq", "--preset", preset.string(), "--calibrate", clip}),
                   "needs a draft model"));
    CHECK_FALSE(fs::exists(output));
  }

  TEST_CASE("prompts are saved to a new file or over saved ones, and over nothing else") {
    const TemporaryFolder folder;
    const fs::path model = folder.path() / "model";
    fs::copy(source() / "samples/demo-model", model);
    const fs::path clip = folder.path() / "clip.mp4";
    fs::copy_file(sample_video("city-000-h264.mp4"), clip);
    const fs::path references = folder.path() / "references.jsonl";
    fs::copy_file(source() / "samples/references.jsonl", references);
    const fs::path foreign = folder.path() / "notes.safetensors";
    write_text(foreign, "mine");
    write_text(folder.path() / "empty", "");
    fs::create_symlink(foreign, folder.path() / "link");
    fs::create_directory_symlink(model, folder.path() / "models");
    const fs::path output = folder.path() / "o";
    const auto save_as = [&](const fs::path& file) {
      std::vector<std::string> all = {
          "quantize", model.string(), "-o",          output.string(),      "--format",
          "gptq",     "--calibrate",  clip.string(), "--save-calibration", file.string()};
      // They are of other videos, which is refused later.
      if (file == references) all.insert(all.end(), {"--references", references.string()});
      return run_cli(all);
    };
    const Files before = files_of(model);
    const std::vector<std::pair<fs::path, const char*>> refusals = {
        {"-", "is standard output"},
        {"/dev/full", "is no regular file"},
        {folder.path() / "empty", "holds something else"},
        {folder.path() / "link", "is no regular file"},
        {foreign, "holds something else and is not overwritten"},
        {clip, "and would be overwritten"},
        {references, "and would be overwritten"},
        {model, "is in the model's folder"},
        {model / "model.safetensors", "is in the model's folder"},
        {folder.path() / "models/new.safetensors", "is in the model's folder"},
        {output / "new.safetensors", "is in the folder of -o"},
        {folder.path() / "none/new.safetensors", "its folder does not exist"}};
    for (const auto& [file, message] : refusals) {
      CAPTURE(file);
      const Finished finished = save_as(file);
      CHECK(finished.exit_code == (contains(message, "its folder") ? 5 : 2));
      CHECK(contains(finished.err, message));
      CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
      CHECK_FALSE(fs::exists(output));
    }
    CHECK(files_of(model) == before);
    CHECK(read_text(foreign) == "mine");
    const fs::path saved = folder.path() / "prompts.safetensors";
    REQUIRE(save_as(saved).exit_code == 0);
    const std::string content = read_text(saved);
    CHECK(save_as(saved).exit_code == 0);
    CHECK(read_text(saved) == content);
  }

  TEST_CASE("the damping of the help text is that of a command without --damping") {
    const TemporaryFolder folder;
    const fs::path output = folder.path() / "model";
    REQUIRE(run_cli(command(output, "gptq", {"-q"})).exit_code == 0);
    CHECK(run_cli(command(output, "gptq", {"-q", "--damping", "0.05"})).exit_code == 0);
    const Finished other = run_cli(command(output, "gptq", {"-q", "--damping", "0.1"}));
    CHECK(other.exit_code == 2);
    CHECK(contains(other.err, "made with --damping 0.05, not 0.1;"));
  }
}

}  // namespace
}  // namespace caption::test
