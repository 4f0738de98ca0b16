// Tests of `caption-cli quantize`: what it makes runs, whatever ends it can be continued, and what
// it refuses.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/open_file.h"
#include "base/sha256.h"
#include "tests/app/drawn_model.h"
#include "tests/app/folders.h"
#include "tests/app/process.h"
#include "tests/support/drawn_checkpoint.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

fs::path demo_model() { return fs::path(CAPTION_SOURCE_DIR) / "samples/demo-model"; }

std::vector<std::string> command(const fs::path& model, const fs::path& output,
                                 const std::string& format) {
  return {"quantize", model.string(), "-o", output.string(), "--format", format};
}

std::size_t count_shards(const fs::path& folder) {
  std::size_t count = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".safetensors") ++count;
  }
  return count;
}

TEST_SUITE("app/quantize") {
  TEST_CASE("a quantised demonstration model captions, and inspect names its format") {
    const TemporaryFolder folder;
    const fs::path output = folder.path() / "model";
    const Finished made = run_cli(command(demo_model(), output, "nf4"));
    CHECK(made.exit_code == 0);
    CHECK(made.out.empty());
    CHECK(contains(made.err, "28 matrices in nf4"));
    const Finished inspected = run_cli({"inspect", output.string()});
    CHECK(inspected.exit_code == 0);
    CHECK(contains(inspected.out, "bitsandbytes, 4 bits"));
    const std::string clip = sample_video("city-000-h264.mp4").string();
    const Finished captioned = run_cli({"run", "-q", "--model", output.string(), "--dtype", "bf16",
                                        "-o", (folder.path() / "c.jsonl").string(), clip});
    CHECK(captioned.exit_code == 0);
    const auto records = parse_records(read_text(folder.path() / "c.jsonl"));
    REQUIRE(records.size() == 1);
    CHECK(records.front().status == records::Status::kOk);
    CHECK_FALSE(records.front().caption.empty());
    // What `run --drafts self` keeps there is neither in the way nor part of a checkpoint.
    write_text(output / "self-draft.json", "{}");
    write_text(output / "model.gguf.self-draft.json", "{}");
    CHECK(run_cli(command(demo_model(), output, "nf4")).exit_code == 0);
    const fs::path source = folder.path() / "source";
    fs::copy(demo_model(), source);
    write_text(source / "self-draft.json", "{}");
    CHECK(run_cli(command(source, folder.path() / "again", "nf4")).exit_code == 0);
    CHECK_FALSE(fs::exists(folder.path() / "again/self-draft.json"));
  }

  TEST_CASE("a folder that cannot be written to, or is not finished, is told with what to do") {
    const TemporaryFolder folder;
    const fs::path file = folder.path() / "file";
    const fs::path broken = folder.path() / "broken";
    write_text(file, "x");
    fs::create_directory(broken);
    write_text(broken / "caption-cli.quantize.json", "{");
    const struct {
      fs::path output;
      int exit_code;
      const char* message;
    } kRows[] = {
        {file, 5, ": is a file, not a folder; give another folder with -o"},
        {folder.path() / std::string(300, 'x'), 5,
         ": cannot make the folder: File name too long; give another folder with -o"},
        {broken, 2,
         "; remove the folder's files, of which it says what made them, or give another folder "
         "with -o"},
    };
    for (const auto& row : kRows) {
      const Finished made = run_cli(command(demo_model(), row.output, "nf4"));
      CAPTURE(made.err);
      CHECK(made.exit_code == row.exit_code);
      CHECK(contains(made.err, row.message));
    }
    const fs::path busy = folder.path() / "busy";
    fs::create_directory(busy);
    const int lock = ::open(busy.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(::flock(lock, LOCK_EX) == 0);
    CHECK(contains(run_cli(command(demo_model(), busy, "nf4")).err,
                   "another caption-cli is writing to this folder; wait for it, or give another "
                   "folder with -o"));
    ::close(lock);
    const Finished run =
        run_cli({"run", "--model", broken.string(), sample_video("city-000-h264.mp4").string()});
    CHECK(run.exit_code == 3);
    CHECK(contains(run.err, broken.string() +
                                ": holds a checkpoint that quantize has not finished; give the "
                                "same quantize command again"));
  }

  TEST_CASE("--dtype awq runs the codes of a folder, as bf16 does") {
    const TemporaryFolder folder;
    const std::string output = (folder.path() / "model").string();
    REQUIRE(run_cli(command(demo_model(), output, "awq")).exit_code == 0);
    const std::string clip = sample_video("city-000-h264.mp4").string();
    std::string captions[2];
    for (const int i : {0, 1}) {
      const std::string dtype = i == 0 ? "awq" : "bf16";
      const Finished run =
          run_cli({"run", "-q", "--format", "txt", "--model", output, "--dtype", dtype, clip});
      CHECK(run.exit_code == 0);
      captions[i] = run.out;
    }
    CHECK_FALSE(captions[0].empty());
    CHECK(captions[0] == captions[1]);
    const std::vector<std::string> dry = {"run",     "--dry-run", "--model", demo_model(),
                                          "--dtype", "awq",       clip};
    for (const std::vector<std::string>& flags :
         {std::vector<std::string>{"plan", "--model", demo_model(), "--dtype", "awq"}, dry}) {
      const Finished refused = run_cli(flags);
      CHECK(refused.exit_code == 2);
      CHECK(contains(refused.out + refused.err, "holds no AWQ codes"));
    }
  }

  TEST_CASE("files that were edited in a finished folder stay, and are named") {
    const TemporaryFolder folder;
    const fs::path output = folder.path() / "model";
    const std::vector<std::string> arguments = command(demo_model(), output, "nf4");
    REQUIRE(run_cli(arguments).exit_code == 0);
    const Files finished = files_of(output);
    const Finished again = run_cli(arguments);
    CHECK(again.exit_code == 0);
    CHECK(contains(again.err, "1 of 1 file of weights is of an earlier run\n"));
    CHECK_FALSE(contains(again.err, "warning: "));
    const std::string edited = read_text(output / "config.json") + "\n";
    write_text(output / "config.json", edited);
    write_text(output / "generation_config.json", "{}");
    const Finished kept = run_cli(arguments);
    CHECK(kept.exit_code == 0);
    CHECK(contains(kept.err, "warning: quantize: " + output.string() +
                                 ": generation_config.json, config.json: not as quantize makes "
                                 "them of the model's folder, and left as edited; what is "
                                 "removed, the same command writes again\n"));
    CHECK(read_text(output / "config.json") == edited);
    std::string weights = read_text(output / "model.safetensors");
    weights.back() ^= 1;
    write_text(output / "model.safetensors", weights);
    CHECK(contains(run_cli(arguments).err,
                   "warning: quantize: " + (output / "model.safetensors").string() +
                       ": no longer has the bytes that quantize wrote, by its size or SHA-256, and "
                       "is made again\n"));
    CHECK(read_text(output / "model.safetensors") == finished.at("model.safetensors"));
    CHECK(read_text(output / "generation_config.json") == "{}");
    fs::remove(output / "config.json");
    write_text(output / "generation_config.json", "{");
    const Finished mended = run_cli(arguments);
    CHECK(mended.exit_code == 0);
    CHECK(contains(mended.err, ": generation_config.json: not valid JSON, and written again\n"));
    CHECK(files_of(output) == finished);
  }

  TEST_CASE("plan refuses a format that run refuses, and neither does with --requantize") {
    const TemporaryFolder folder;
    const std::string output = (folder.path() / "model").string();
    REQUIRE(run_cli(command(demo_model(), output, "nf4")).exit_code == 0);
    const std::string clip = sample_video("city-000-h264.mp4").string();
    for (const char* requantize : {"false", "true"}) {
      CAPTURE(requantize);
      const std::vector<std::string> flags = {"--model", output,         "--dtype",
                                              "int8",    "--requantize", requantize};
      std::vector<std::string> plan = {"plan"};
      std::vector<std::string> run = {"run", "-q", clip};
      plan.insert(plan.end(), flags.begin(), flags.end());
      run.insert(run.end(), flags.begin(), flags.end());
      const Finished planned = run_cli(plan);
      const Finished captioned = run_cli(run);
      const bool is_refused = requantize == std::string("false");
      CHECK(planned.exit_code == (is_refused ? 4 : 0));
      CHECK(captioned.exit_code == (is_refused ? 4 : 0));
      CHECK(contains(planned.out, "would round a second time") == is_refused);
      CHECK(contains(captioned.err, "would round a second time") == is_refused);
    }
  }

  TEST_CASE("SIGKILL and Ctrl-C at any moment leave what the same command completes, bit for bit") {
    const TemporaryFolder folder;
    const auto with_shards = [&](const fs::path& output) {
      std::vector<std::string> all = command(demo_model(), output, "gptq");
      all.insert(all.end(), {"-q", "--max-shard-size", "200kB"});
      return all;
    };
    const fs::path whole = folder.path() / "whole";
    REQUIRE(run_cli(with_shards(whole)).exit_code == 0);
    const Files expected = files_of(whole);
    const std::size_t num_shards = count_shards(whole);
    REQUIRE(num_shards > 10);
    int num_ended = 0;
    for (const int signal : {SIGKILL, SIGINT}) {
      for (const std::size_t wanted : {std::size_t{0}, std::size_t{1}, num_shards / 2}) {
        CAPTURE(signal);
        CAPTURE(wanted);
        const fs::path output = folder.path() / "part";
        fs::remove_all(output);
        const pid_t child = start_cli(with_shards(output), folder.path() / "stderr");
        const auto is_early = [&] { return !fs::exists(output) || count_shards(output) < wanted; };
        for (int i = 0; i < 60'000 && is_early(); ++i) {
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        ::kill(child, signal);
        const int code = wait_for(child);
        // A fast machine may have finished first.
        CHECK((code == 0 || code == (signal == SIGKILL ? 128 + SIGKILL : 130)));
        if (code != 0) ++num_ended;
        if (code == 130) CHECK(contains(read_text(folder.path() / "stderr"), "continues"));
        CHECK(fs::exists(output / "config.json") == (code == 0));
        CHECK(run_cli(with_shards(output)).exit_code == 0);
        CHECK(files_of(output) == expected);
      }
    }
    CHECK(num_ended > 0);
  }

  TEST_CASE("GGUF files are continued after SIGKILL and Ctrl-C, bit for bit") {
    const TemporaryFolder folder;
    const fs::path model = folder.path() / "drawn";
    write_drawn_model(model);
    const fs::path whole = folder.path() / "whole";
    REQUIRE(run_cli(command(model, whole, "gguf-q8_0")).exit_code == 0);  // 110 MB
    const char* const name = "drawn-Q8_0.gguf";
    const char* const manifest = "caption-cli.quantize.json";
    const Sha256 expected = OpenFile(whole / name).sha256();
    int num_continued = 0;
    for (const int signal : {SIGKILL, SIGINT}) {
      CAPTURE(signal);
      const fs::path output = folder.path() / "part";
      fs::remove_all(output);
      const pid_t child = start_cli(command(model, output, "gguf-q8_0"), folder.path() / "stderr");
      // The first 64 MiB are entered; or 10 MB are written, which an interruption enters.
      const auto is_early = [&] {
        std::error_code error;
        if (fs::exists(output / name)) return false;
        if (signal == SIGKILL) return !contains(read_text(output / manifest), "gguf.part");
        const std::uintmax_t size = fs::file_size(output / "drawn-Q8_0.gguf.part", error);
        return error || size < 10'000'000;
      };
      for (int i = 0; i < 600'000 && is_early(); ++i) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      ::kill(child, signal);
      const int code = wait_for(child);
      CHECK((code == 0 || code == (signal == SIGKILL ? 128 + SIGKILL : 130)));
      if (code == 130) CHECK(contains(read_text(folder.path() / "stderr"), "command continues"));
      const Finished rest = run_cli(command(model, output, "gguf-q8_0"));
      CHECK(rest.exit_code == 0);
      CHECK(contains(rest.err, "of 91 tensors are of an earlier run"));
      if (!contains(rest.err, "91 of 91 tensors")) ++num_continued;
      CHECK(OpenFile(output / name).sha256() == expected);
      CHECK(read_text(output / manifest) == read_text(whole / manifest));
      CHECK(std::distance(fs::directory_iterator(output), fs::directory_iterator()) == 2);
    }
    CHECK(num_continued > 0);
  }

  TEST_CASE("what cannot be quantised is refused in one line, with its exit code") {
    const TemporaryFolder folder;
    const fs::path output = folder.path() / "out";
    struct Case {
      std::vector<std::string> arguments;
      int exit_code;
      const char* message;
    };
    const fs::path made = folder.path() / "made";
    REQUIRE(run_cli(command(demo_model(), made, "int8")).exit_code == 0);
    write_text(folder.path() / "composed.yaml", "model: {}\n");
    write_text(folder.path() / "composed.txt", "model: {}\n");
    fs::create_directory(folder.path() / "empty");
    write_text(folder.path() / "a.gguf", "GGUF");
    const caption::testing::DrawnCheckpoint small(fs::path(CAPTION_SOURCE_DIR) /
                                                  "tests/golden/qwen3_vl/no_deepstack");
    const std::vector<Case> cases = {
        {command("no/such/model", output, "nf4"), 3,
         "quantize: no/such/model: no such folder; give the folder of a model as transformers "
         "saves it, or its name in the Hugging Face cache"},
        {command("nope", output, "nf4"), 3, "quantize: nope: no such folder; give the folder of"},
        {command("nope.gguf", output, "nf4"), 3, "nope.gguf: no such file, and GGUF files are not"},
        {command(folder.path() / "composed.txt", output, "nf4"), 2,
         "is no folder; quantize takes a model's folder with safetensors, as transformers saves "
         "it\n"},
        {command(folder.path() / "empty", output, "nf4"), 3,
         "holds no config.json, so it is no model's folder; quantize takes one as transformers"},
        {command(demo_model(), output, "nf3"), 2, "did you mean nf4?"},
        {{"quantize", demo_model().string(), "-o", output.string()}, 2, "--format"},
        {{"quantize", demo_model().string(), "--format", "nf4"}, 2, "--output"},
        {command(made, output, "nf4"), 3, "is quantised already (bitsandbytes, 8 bits)"},
        {command(folder.path() / "composed.yaml", output, "nf4"), 2, "is a preset"},
        {command(folder.path() / "a.gguf", output, "nf4"), 2, "the model that it was made of"},
        {command(small.path(), output, "awq"), 4, "groups of 128 do not divide"},
        {command(demo_model(), made, "nf4"), 2, "made with --format int8, not nf4"},
        {command(demo_model(), folder.path(), "nf4"), 2, "is no file of this checkpoint"},
        {command(demo_model(), "/proc/none", "nf4"), 5, "/proc/none"},
        {command(demo_model(), folder.path() / "a.gguf", "nf4"), 5, "a.gguf"},
    };
    for (const Case& c : cases) {
      CAPTURE(c.message);
      const Finished finished = run_cli(c.arguments);
      CHECK(finished.exit_code == c.exit_code);
      CHECK(finished.out.empty());
      CHECK(contains(finished.err, c.message));
      CHECK(finished.err.find('\n') == finished.err.size() - 1);
      CHECK_FALSE(fs::exists(output));
    }
  }

  TEST_CASE("a file that the system does not let grow ends the command with 5, and it continues") {
    const TemporaryFolder folder;
    const fs::path output = folder.path() / "out";
    const Surroundings small = {.limits = {{RLIMIT_FSIZE, 1'000'000}}};
    const Finished finished = run_cli_in(small, command(demo_model(), output, "nf4"));
    CHECK(finished.exit_code == 5);
    CHECK(contains(finished.err, "model.safetensors.partial"));
    CHECK_FALSE(fs::exists(output / "model.safetensors.partial"));
    CHECK(run_cli(command(demo_model(), output, "nf4")).exit_code == 0);
  }
}

}  // namespace
}  // namespace caption::test
