// Tests the flags that select clips, and options that no clip could satisfy.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/app/folders.h"
#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

// Returns the names of the clips that have records.
std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  for (const records::Record& record : parse_records(text)) {
    names.push_back(fs::path(record.video).filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Returns a descriptor to write into the FIFO as soon as a process reads it; -1 if none does.
int open_writer(const fs::path& fifo) {
  int writer = -1;
  for (int i = 0; i < 1000 && writer < 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    writer = ::open(fifo.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  }
  return writer;
}

TEST_SUITE("app/input_flags") {
  TEST_CASE("--include, --exclude and --limit choose the clips") {
    const TemporaryFolder folder;
    fill(folder.path(), {"a.mp4", "b.mkv", "c.mp4", "old/d.mp4"});
    const std::string in = folder.path().string();
    CHECK(names_in(run_cli({"run", "-q", in, "--include", "*.mp4"}).out) ==
          Names{"a.mp4", "c.mp4", "d.mp4"});
    const Finished filtered = run_cli({"run", in, "--include", "[ab].*", "--include", "d*",
                                       "--exclude", "old/", "--exclude", "*.mkv"});
    CHECK(filtered.exit_code == 0);
    CHECK(names_in(filtered.out) == Names{"a.mp4"});
    CHECK(contains(filtered.err, "4 files or folders were left out by --include and --exclude: "));
    // A file in a folder that is not a video does not count towards --limit.
    const Finished limited = run_cli({"run", in, "--exclude", "a*", "--limit", "2"});
    CHECK(names_in(limited.out) == Names{"b.mkv", "c.mp4"});
    CHECK(contains(limited.err, "--limit 2: 2 clips taken, 1 file behind left out"));
    CHECK(names_in(run_cli({"run", "-q", in, "--limit", "100"}).out).size() == 4);
    // The filters also apply to files that are named.
    CHECK(
        names_in(run_cli({"run", "-q", in + "/a.mp4", in + "/b.mkv", "--exclude", "*.mkv"}).out) ==
        Names{"a.mp4"});
    CHECK(
        names_in(run_cli({"run", "-q", "-", "--include", "c.*"}, in + "/a.mp4\n" + in + "/c.mp4\n")
                     .out) == Names{"c.mp4"});
  }

  TEST_CASE("folders without a film are refused before an output is made") {
    const TemporaryFolder folder;
    const fs::path in = folder.path() / "in";
    fs::create_directory(in);
    write_text(in / "a.txt", "no film");
    write_text(in / ".b.mp4", "hidden");
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::string before = list(folder.path());
    for (const bool is_dry : {false, true}) {
      std::vector<std::string> arguments = {"run", in.string(), "-o", out};
      if (is_dry) arguments.emplace_back("--dry-run");
      const Finished none = run_cli(arguments);
      CAPTURE(none.err);
      CHECK(none.exit_code == 2);
      CHECK(contains(none.err,
                     "error: caption-cli: run: found 1 file and no video; name videos or folders "
                     "of them; 1 hidden file or folder was left out\n"));
      CHECK(list(folder.path()) == before);
    }
    // A video is recognised by its content, whatever its name.
    fs::copy_file(sample_video("city-000-h264.mp4"), in / "film");
    const Finished one = run_cli({"run", "-v", in.string(), "-o", out});
    CHECK(one.exit_code == 0);
    CHECK(contains(one.err, "run: 1 hidden file or folder was left out\n"));
    CHECK_FALSE(contains(run_cli({"run", in.string(), "-o", out}).err, "hidden"));
  }

  TEST_CASE("a folder that cannot be read is said, counted, and keeps an --overwrite from ending") {
    const TemporaryFolder folder;
    const fs::path in = folder.path() / "in";
    fill(in, {"a.mp4"});
    const std::string out = (folder.path() / "c.jsonl").string();
    CHECK(run_cli({"run", in.string(), "-o", out}).exit_code == 0);
    const std::string before = read_text(out);
    // The path is longer than the system permits, so not even root can read it.
    const std::string name(250, 'd');
    int below = ::open(in.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int depth = 0; depth * 251 < PATH_MAX; ++depth) {
      REQUIRE(::mkdirat(below, name.c_str(), 0700) == 0);
      const int inner = ::openat(below, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      ::close(below);
      below = inner;
    }
    ::close(below);
    const Finished again = run_cli({"run", in.string(), "-o", out});
    CAPTURE(again.err);
    CHECK(again.exit_code == 1);
    CHECK(contains(again.err, name + ": the folder cannot be read (File name too long); what"));
    CHECK(contains(again.err,
                   "run: nothing to caption, 1 file in folders is no video, 1 folder "
                   "could not be read\n"));
    CHECK(read_text(out) == before);
    const Finished over = run_cli({"run", in.string(), "-o", out, "--overwrite", "--seed", "9"});
    CHECK(over.exit_code == 1);
    CHECK(contains(over.err, "stays as it was, because a folder could not be read"));
    CHECK(read_text(out) == before);
    const Finished dry = run_cli({"run", in.string(), "--dry-run"});
    CHECK(contains(dry.out, "clips     1, and 1 file that is no video; 1 folder cannot be read\n"));
    CHECK(dry.exit_code == 1);
  }

  TEST_CASE("a filter that leaves nothing says what it left out") {
    const TemporaryFolder folder;
    fill(folder.path() / "in", {"a.mp4"});
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::string in = (folder.path() / "in").string();
    const Finished none = run_cli({"run", in, "-o", out, "--include", "*.avi"});
    CHECK(none.exit_code == 2);
    CHECK(contains(none.err, "no file is left: 2 files or folders were left out by --include: "));
    CHECK(contains(none.err, in + "/a.mp4"));
    CHECK_FALSE(fs::exists(out));
    CHECK(run_cli({"run", in, "--include", ""}).exit_code == 2);
    CHECK(run_cli({"run", in, "--limit", "0"}).exit_code == 2);
    CHECK(run_cli({"run", in, "--limit", "-3"}).exit_code == 2);
  }

  TEST_CASE("what the model cannot hold is refused before anything is written") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::string video = sample_video("city-000-h264.mp4").string();
    struct Case {
      std::vector<std::string> arguments;
      const char* message;
    };
    const Case cases[] = {
        {{"--max-new-tokens", "65536"}, "and 65536 new tokens need "},
        {{"--max-new-tokens", "65536"}, "lower --max-new-tokens to at most "},
        {{"--frames", "4096"}, "4096 frames (65536 vision tokens)"},
        {{"--frames", "4096"}, "lower --frames to at most 55\n"},
        {{"--max-new-tokens", "65536"}, "need 65676 (the last new token needs none); "},
        {{"--prompt", std::string(15000, 'x')}, "the model holds "},
        {{"--kv-cache-bytes", "400K"},
         "--kv-cache-bytes 400KiB holds 12 KV pages of 16 tokens; 8 frames (128 vision tokens), 13 "
         "prompt tokens and 128 new tokens need 17; raise it to at least 544KiB, or lower --frames "
         "or --max-new-tokens\n"},
        {{"--kv-cache-bytes", "543KiB"}, "need 17; raise it to at least 544KiB"},
        // The beams share eight full pages of the prompt.
        {{"--kv-cache-bytes", "1K", "--num-beams", "2"}, "in 2 beams need 26; "},
        {{"--kv-cache-bytes", "1K", "--dry-run"}, "--kv-cache-bytes 1KiB holds 0 KV pages"},
        // A draft model of the same shape has as many pages of the same size.
        {{"--kv-cache-bytes", "1087KiB", "--drafts", "model", "--draft-model",
          std::string(CAPTION_SOURCE_DIR) + "/samples/demo-model"},
         "--kv-cache-bytes 1087KiB holds 16 KV pages of 16 tokens of model and draft model; 8 "
         "frames (128 vision tokens), 13 prompt tokens and 128 new tokens need 17; raise it to at "
         "least 1088KiB, or"},
    };
    for (const Case& c : cases) {
      CAPTURE(c.message);
      std::vector<std::string> arguments = {"run", video, "-o", out};
      arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
      const Finished finished = run_cli(arguments);
      CAPTURE(finished.err);
      CHECK(finished.exit_code == 2);
      CHECK(contains(finished.err, c.message));
      CHECK_FALSE(fs::exists(out));
    }
    CHECK(run_cli({"run", video, "-o", out, "--kv-cache-bytes", "544KiB"}).exit_code == 0);
    // The number of frames at a given rate depends on the clip's length.
    CHECK(run_cli({"run", video, "--frames", "4096", "--sampling", "fps=0.5"}).exit_code == 0);
    const fs::path preset = fs::path(out).parent_path() / "nameless.yaml";
    write_text(preset, "model: \"\"\n");
    const Finished nameless = run_cli({"run", video, "--preset", preset.string()});
    CHECK(nameless.exit_code == 3);
    CHECK(contains(nameless.err, "the model's name is empty; give a model's folder"));
  }

  TEST_CASE("counts agree with their nouns") {
    const std::string a = sample_video("city-000-h264.mp4").string();
    const std::string b = sample_video("bridge-006-h264.mp4").string();
    CHECK(contains(run_cli({"run", "--stream", a, b}).err, "found 2 videos and 1 prompt\n"));
    CHECK(contains(run_cli({"run", "--stream", "--logprobs", "2", a}).err, "without --logprobs"));
    CHECK(contains(run_cli({"inspect", "-o", "sheet.jpg", a}).err, "the sheet is a PNG"));
    CHECK(contains(run_cli({"run", "--stream", a, "--prompt", "x", "--prompt", "y"}).err,
                   "found 1 video and 2 prompts\n"));
    CHECK(contains(run_cli({"run", a}).err, "drawn background scenes only; --model names one"));
  }

  TEST_CASE("a run that was started with SIGINT ignored, as in the background, goes on") {
    const TemporaryFolder folder;
    const fs::path fifo = folder.path() / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    const auto earlier = std::signal(SIGINT, SIG_IGN);
    const pid_t child = start_cli({"run", "--prompts", fifo.string(), "-o", "-", "--dry-run",
                                   small_video("city-000-h264.mp4").string()},
                                  folder.path() / "err");
    std::signal(SIGINT, earlier);
    const int writer = open_writer(fifo);
    REQUIRE(writer >= 0);
    ::kill(child, SIGINT);
    const std::string prompt = "무엇입니까?\n";
    CHECK(::write(writer, prompt.data(), prompt.size()) == std::ssize(prompt));
    ::close(writer);
    CHECK(wait_for(child) == 0);
  }

  TEST_CASE("a run that waits for what is written into a FIFO ends at the first signal") {
    const TemporaryFolder folder;
    const fs::path fifo = folder.path() / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    const std::string film = small_video("city-000-h264.mp4").string();
    for (const char* const option : {"--preset", "--prompts", "--examples"}) {
      for (const int signal : {SIGINT, SIGTERM}) {
        CAPTURE(option);
        CAPTURE(signal);
        const fs::path err = folder.path() / "err";
        const pid_t child = start_cli({"run", option, fifo.string(), "-o", "-", film}, err);
        const int writer = open_writer(fifo);
        REQUIRE(writer >= 0);
        ::kill(child, signal);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        ::close(writer);  // a run that does not end reads an empty text, and refuses it
        CHECK(wait_for(child) == 130);
        CHECK(read_text(err).find("caption-cli: interrupted; nothing was done\n") !=
              std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace caption::test
