// Which clips a run is about, what it would do, and options that no clip could satisfy.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The names of the clips that have records.
std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  for (const records::Record& record : parse_records(text)) {
    names.push_back(fs::path(record.video).filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

// Links to samples under these names, and a text.
void fill(const fs::path& folder, const Names& names) {
  const std::vector<fs::path> samples = sample_videos();
  for (std::size_t i = 0; i < names.size(); ++i) {
    fs::create_directories((folder / names[i]).parent_path());
    fs::create_symlink(samples[i], folder / names[i]);
  }
  write_text(folder / "0 notes", "no film");
}

// Every file below a folder, with its size.
std::string list(const fs::path& folder) {
  Names lines;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    lines.push_back(entry.path().string() +
                    (entry.is_regular_file() ? " " + std::to_string(entry.file_size()) : ""));
  }
  std::sort(lines.begin(), lines.end());
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
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
    // A file in a folder that is no video counts for nothing.
    const Finished limited = run_cli({"run", in, "--exclude", "a*", "--limit", "2"});
    CHECK(names_in(limited.out) == Names{"b.mkv", "c.mp4"});
    CHECK(contains(limited.err, "--limit: the first 2 clips; 1 file behind them left out"));
    CHECK(names_in(run_cli({"run", "-q", in, "--limit", "100"}).out).size() == 4);
    // Files that are named are filtered as well.
    CHECK(
        names_in(run_cli({"run", "-q", in + "/a.mp4", in + "/b.mkv", "--exclude", "*.mkv"}).out) ==
        Names{"a.mp4"});
    CHECK(
        names_in(run_cli({"run", "-q", "-", "--include", "c.*"}, in + "/a.mp4\n" + in + "/c.mp4\n")
                     .out) == Names{"c.mp4"});
  }

  TEST_CASE("a filter that leaves nothing says what it left out") {
    const TemporaryFolder folder;
    fill(folder.path() / "in", {"a.mp4"});
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::string in = (folder.path() / "in").string();
    const Finished none = run_cli({"run", in, "-o", out, "--include", "*.avi"});
    CHECK(none.exit_code == 2);
    CHECK(contains(none.err, "no file is left: 2 files or folders were left out"));
    CHECK(contains(none.err, in + "/a.mp4"));
    CHECK_FALSE(fs::exists(out));
    CHECK(run_cli({"run", in, "--include", ""}).exit_code == 2);
    CHECK(run_cli({"run", in, "--limit", "0"}).exit_code == 2);
    CHECK(run_cli({"run", in, "--limit", "-3"}).exit_code == 2);
  }

  TEST_CASE("a dry run tells what a run would do, and writes nothing") {
    const TemporaryFolder folder;
    const fs::path in = folder.path() / "in";
    fill(in, {"a.mp4", "b.mkv", "c.mp4"});
    fs::create_directories(folder.path() / "cache");
    const std::string out = (folder.path() / "c.jsonl").string();
    const Environment here = {{"XDG_CACHE_HOME", (folder.path() / "cache").string()}};
    std::vector<std::string> command = {"run", in.string(), "-o", out, "--dry-run"};
    const std::string before = list(folder.path());
    const Finished first = run_cli(command, "", here);
    CAPTURE(first.err);
    CHECK(first.exit_code == 0);
    CHECK(list(folder.path()) == before);
    CAPTURE(first.out);
    CHECK(contains(first.out, "clips     3, and 1 file that is no video\n"));
    CHECK(contains(first.out, "known     0 captions have their records\n"));
    CHECK(contains(first.out, "to do     3 captions\n"));
    CHECK(contains(first.out, "output    " + out + " (jsonl)\n"));
    CHECK(contains(first.out, "samples/demo-model, bf16 weights, preset cpu\n"));
    CHECK(contains(first.out, "time      not known before clips were captioned"));

    CHECK(run_cli({"run", (in / "a.mp4").string(), "-o", out}).exit_code == 0);
    CHECK(run_cli({"run", (in / "b.mkv").string(), "-o", out}).exit_code == 0);
    fs::rename(in / "b.mkv", in / "d.mkv");                    // moved: recognised by its content
    fs::copy_file(fs::canonical(in / "a.mp4"), in / "e.mp4");  // as large, and the same film
    const std::string half = list(folder.path());
    const Finished second = run_cli(command, "", here);
    CAPTURE(second.out);
    CHECK(second.exit_code == 0);
    CHECK(list(folder.path()) == half);
    CHECK(contains(second.out, "clips     4, "));
    CHECK(contains(second.out, "known     1 caption has its record\n"));
    CHECK(contains(second.out,
                   "to do     1 caption; 2 records taken over from files of the same content\n"));
    CHECK(contains(second.out, "(jsonl), which holds 2 records\n"));
    CHECK(contains(second.out, "time      about 1 s, at the pace of 2 records in the output\n"));

    CHECK(run_cli({"run", in.string(), "-o", out}).exit_code == 0);
    const Finished third = run_cli(command, "", here);
    CHECK(contains(third.out, "known     4 captions have their records\n"));
    CHECK(contains(third.out, "to do     0 captions\n"));
    CHECK(contains(third.out, "time      none: nothing is left to be captioned\n"));
    command.insert(command.end(), {"--overwrite"});
    CHECK(contains(run_cli(command, "", here).out, "to do     4 captions\n"));
    command.back() = "--seed=9";
    CHECK(run_cli(command, "", here).exit_code == 2);  // as the run itself would end
  }

  TEST_CASE("a dry run tells what would be retried") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::string a = sample_video("city-000-h264.mp4").string();
    CHECK(run_cli({"run", a, "-o", out, "--max-new-tokens", "5"}).exit_code == 0);
    const Finished dry = run_cli({"run", a, "-o", out, "--retry", "truncated", "--dry-run"});
    CAPTURE(dry.out);
    CHECK(dry.exit_code == 0);
    CHECK(contains(dry.out, "to do     1 caption, 1 of them made again\n"));
    const Finished standard = run_cli({"run", a, "--dry-run", "--format", "csv"});
    CHECK(contains(standard.out, "output    standard output (csv)\n"));
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
        {{"--prompt", std::string(15000, 'x')}, "the model holds "},
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
    // How many frames a clip has at a rate is a matter of its length.
    CHECK(run_cli({"run", video, "--frames", "4096", "--sampling", "fps=0.5"}).exit_code == 0);
    const Finished nameless = run_cli({"run", video, "--model", ""});
    CHECK(nameless.exit_code == 3);
    CHECK(contains(nameless.err, "the model's name is empty; --model takes a model's folder"));
  }

  TEST_CASE("counts agree with their nouns") {
    const std::string a = sample_video("city-000-h264.mp4").string();
    const std::string b = sample_video("bridge-006-h264.mp4").string();
    CHECK(contains(run_cli({"run", "--stream", a, b}).err, "found 2 videos and 1 prompt\n"));
    CHECK(contains(run_cli({"run", "--stream", a, "--prompt", "x", "--prompt", "y"}).err,
                   "found 1 video and 2 prompts\n"));
    CHECK(contains(run_cli({"run", a}).err, "drawn background scenes only; --model names one"));
  }
}

}  // namespace
}  // namespace caption::test
