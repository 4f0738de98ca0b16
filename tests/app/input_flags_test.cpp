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
    CHECK(contains(first.out, "time      not known yet: caption some clips first"));

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

  TEST_CASE("a dry run counts failures, and tells what --overwrite would replace") {
    const TemporaryFolder folder;
    const fs::path in = folder.path() / "in";
    fill(in, {"a.mp4"});
    write_text(in / "b.mp4", "no film");
    const std::string out = (folder.path() / "c.jsonl").string();
    CHECK(run_cli({"run", in.string(), "-o", out}).exit_code == 1);
    const Finished known = run_cli({"run", in.string(), "-o", out, "--dry-run", "-vv"});
    CAPTURE(known.out);
    CHECK(contains(known.out, "  failed    " + (in / "b.mp4").string() + "\n"));
    CHECK(contains(known.out,
                   "known     2 captions have their records, 1 of them of a failure "
                   "(--retry-failed tries it again)\n"));
    CHECK(contains(known.out, "to do     0 captions\n"));
    const Finished over = run_cli({"run", in.string(), "-o", out, "--dry-run", "--overwrite"});
    CAPTURE(over.out);
    CHECK(contains(over.out, "output    " + out +
                                 " (jsonl), whose 2 lines would be replaced at the end; until then "
                                 "records are in " +
                                 out + ".new\n"));
    CHECK_FALSE(fs::exists(out + ".new"));
  }

  TEST_CASE("a dry run refuses what the run could not write, and so does the run") {
    const TemporaryFolder folder;
    const fs::path root = folder.path();
    const std::string video = sample_video("city-000-h264.mp4").string();
    write_text(root / "file", "no folder");
    fs::create_directory(root / "here");
    struct Case {
      std::vector<std::string> arguments;
      const char* message;
    };
    const std::string good = (root / "here/c.jsonl").string();
    const Case cases[] = {
        {{"-o", (root / "none/c.jsonl").string()},
         "none/c.jsonl: cannot open for writing: No such"},
        {{"-o", (root / "file/c.jsonl").string()}, "Not a directory"},
        {{"-o", (root / std::string(300, 'x')).string()}, "File name too long; give a shorter -o"},
        // The name fits, that of its manifest does not.
        {{"-o", (root / "here" / std::string(245, 'x')).string()},
         "File name too long with .manifest.json.new behind it; give a shorter -o"},
        {{"-o", good, "--kv-cache-dir", (root / "file").string()},
         "file: cannot be used as a cache folder (Not a directory); name another"},
        {{"-o", good, "--kv-cache-dir", (root / "file/below").string()}, "Not a directory"},
    };
    const std::string before = list(root);
    for (const Case& c : cases) {
      CAPTURE(c.message);
      std::vector<std::string> arguments = {"run", video};
      arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
      const Finished run = run_cli(arguments);
      arguments.emplace_back("--dry-run");
      const Finished dry = run_cli(arguments);
      CAPTURE(dry.err);
      CHECK(dry.exit_code == 5);
      CHECK(contains(dry.err, c.message));
      CHECK(dry.out.empty());
      CHECK(run.exit_code == 5);
      CHECK(contains(run.err, c.message));
      CHECK(list(root) == before);
    }
    // What is missing of a cache folder is made; a dry run does not make it.
    CHECK(
        run_cli({"run", video, "--dry-run", "--kv-cache-dir", (root / "a/b").string()}).exit_code ==
        0);
    CHECK(list(root) == before);
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
        {{"--max-new-tokens", "65536"}, "need 65676 (the last new token needs none); "},
        {{"--prompt", std::string(15000, 'x')}, "the model holds "},
        {{"--kv-cache-bytes", "400K"},
         "--kv-cache-bytes 400KiB holds 12 KV pages of 16 tokens; 8 frames (128 vision tokens), 13 "
         "prompt tokens and 128 new tokens need 17; raise it to at least 544KiB, or lower --frames "
         "or --max-new-tokens\n"},
        {{"--kv-cache-bytes", "543KiB"}, "need 17; raise it to at least 544KiB"},
        // Eight whole pages of the prompt are shared.
        {{"--kv-cache-bytes", "1K", "--num-beams", "2"}, "in 2 beams need 26; "},
        {{"--kv-cache-bytes", "1K", "--dry-run"}, "--kv-cache-bytes 1KiB holds 0 KV pages"},
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
