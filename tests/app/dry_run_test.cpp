// Tests what --dry-run predicts and what it rejects.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/app/folders.h"
#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

TEST_SUITE("app/dry_run") {
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
    CHECK(contains(first.out, "  model     " + std::string(CAPTION_SOURCE_DIR) +
                                  "/samples/demo-model, bf16 weights, preset cpu\n"));
    CHECK(contains(first.out, "time      not known yet: caption some clips first"));

    CHECK(run_cli({"run", (in / "a.mp4").string(), "-o", out}).exit_code == 0);
    CHECK(run_cli({"run", (in / "b.mkv").string(), "-o", out}).exit_code == 0);
    fs::rename(in / "b.mkv", in / "d.mkv");  // moved, but recognised by its content
    fs::copy_file(fs::canonical(in / "a.mp4"), in / "e.mp4");  // same size and same content
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
    CHECK(contains(second.out, "time      about "));  // 1 s on a machine that does nothing else
    CHECK(contains(second.out, " s, at the pace of 2 records in the output\n"));

    CHECK(run_cli({"run", in.string(), "-o", out}).exit_code == 0);
    const Finished third = run_cli(command, "", here);
    CHECK(contains(third.out, "known     4 captions have their records\n"));
    CHECK(contains(third.out, "to do     0 captions\n"));
    CHECK(contains(third.out, "time      none: nothing is left to be captioned\n"));
    command.insert(command.end(), {"--overwrite"});
    const Finished anew = run_cli(command, "", here);
    CAPTURE(anew.out);
    CHECK(contains(anew.out,  // e.mp4 is a.mp4
                   "to do     3 captions; 1 record taken over from files of the same content\n"));
    command.back() = "--max-new-tokens=9";
    CHECK(run_cli(command, "", here).exit_code == 2);  // same exit code as the run itself
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
        // The output's name is short enough, but its manifest's name is not.
        {{"-o", (root / "here" / std::string(245, 'x')).string()},
         "File name too long with .manifest.json behind it; give a shorter -o"},
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
    // A run creates a missing cache folder; a dry run does not.
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
}

}  // namespace
}  // namespace caption::test
