// Tests where records are written, which of them a retry replaces, and names that are not plain
// text.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "records/file_name.h"
#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

// Returns a command with little work per clip and without progress messages.
std::vector<std::string> short_run(const std::vector<std::string>& more) {
  std::vector<std::string> command = {"run", "-q", "--frames", "2"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::istringstream text(read_text(file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::string line_of(const std::vector<std::string>& lines, const fs::path& video) {
  for (const std::string& line : lines) {
    if (parse_records(line + "\n").at(0).video == video.string()) return line;
  }
  FAIL("no record of " << video.string());
  return {};
}

TEST_SUITE("app/output") {
  TEST_CASE("-o - is standard output, and a suffix asks for a form") {
    const TemporaryFolder folder;
    const std::string video = sample_video("city-000-h264.mp4").string();
    const Finished dash = run_cli_in({.folder = folder.path()}, short_run({video, "-o", "-"}));
    CHECK(dash.exit_code == 0);
    CHECK(parse_records(dash.out).size() == 1);
    CHECK(fs::is_empty(folder.path()));
    struct Case {
      const char* name;
      std::string begin;
    };
    const Case cases[] = {{"x.csv", "\xEF\xBB\xBFvideo,prompt,"},
                          {"x.txt", video + ": "},
                          {"x.jsonl", "{\"video\":"},
                          {"x.out", "{\"video\":"}};
    for (const Case& c : cases) {
      CAPTURE(c.name);
      CHECK(run_cli_in({.folder = folder.path()}, short_run({video, "-o", c.name})).exit_code == 0);
      CHECK(read_text(folder.path() / c.name).starts_with(c.begin));
    }
    CHECK(run_cli_in({.folder = folder.path()},
                     short_run({video, "-o", "y.csv", "--format", "jsonl"}))
              .exit_code == 0);
    CHECK(parse_records(read_text(folder.path() / "y.csv")).size() == 1);
  }

  TEST_CASE("a retry makes the clips of its command again, and only what comes out better counts") {
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "c.jsonl";
    const std::vector<fs::path> videos = {sample_videos().at(0), sample_videos().at(1),
                                          sample_videos().at(2)};
    std::vector<std::string> all = {"-o", out.string()};
    for (const fs::path& video : videos) all.push_back(video.string());
    std::vector<std::string> first = all;
    first.insert(first.end(), {"--max-new-tokens", "5"});
    CHECK(run_cli(short_run(first)).exit_code == 0);
    const std::vector<std::string> before = lines_of(out);
    REQUIRE(before.size() == 3);

    CHECK(run_cli(short_run({"-o", out.string(), videos[1].string(), "--retry", "truncated",
                             "--max-new-tokens", "9"}))
              .exit_code == 0);
    const std::vector<std::string> after = lines_of(out);
    REQUIRE(after.size() == 3);
    CHECK(line_of(after, videos[0]) == line_of(before, videos[0]));
    CHECK(line_of(after, videos[2]) == line_of(before, videos[2]));
    CHECK(parse_records(line_of(after, videos[1]) + "\n").at(0).output_tokens == 9);

    // More tokens than the model has positions for: every clip fails, and no caption may be lost.
    std::vector<std::string> hopeless = all;
    hopeless.insert(hopeless.end(), {"--retry", "truncated", "--max-new-tokens", "60000"});
    run_cli(short_run(hopeless));
    CHECK(lines_of(out) == after);
  }

  TEST_CASE("names that are no plain text come back from records, tables and scores") {
    const TemporaryFolder folder;
    const fs::path films = folder.path() / "films";
    fs::create_directory(films);
    const std::vector<std::string> names = {"a\nb.mp4", "=1+1.mp4", "c\xff.mp4"};
    for (std::size_t i = 0; i < names.size(); ++i) {
      fs::copy_file(sample_videos().at(i), films / names[i]);
    }
    const auto run = [&](const std::string& out) {
      std::vector<std::string> command = {"run", "--frames", "2", "-o", out};
      for (const std::string& name : names) command.push_back(name);
      return run_cli_in({.folder = films}, command);
    };
    const std::string out = (folder.path() / "c.jsonl").string();
    CHECK(run(out).exit_code == 0);
    const std::vector<records::Record> records = parse_records(read_text(out));
    REQUIRE(records.size() == 3);
    for (const records::Record& record : records) {
      CAPTURE(record.video);
      const std::string name = records::unescape_file_name(record.video);
      CHECK(std::count(names.begin(), names.end(), name) == 1);
      CHECK(fs::exists(films / name));
      CHECK(records::unescape_file_name(record.file->path) == (films / name).string());
    }
    CHECK(run(out).err.find("3 of 3 clips are in it") != std::string::npos);

    const std::string table = (folder.path() / "c.csv").string();
    CHECK(run(table).exit_code == 0);
    const std::vector<std::string> rows = lines_of(table);
    REQUIRE(rows.size() == 4);
    for (const char* begin : {"a\\x0ab.mp4,", "\"'=1+1.mp4\",", "c\\xff.mp4,"}) {
      CAPTURE(begin);
      CHECK(std::count_if(rows.begin(), rows.end(),
                          [&](const std::string& row) { return row.starts_with(begin); }) == 1);
    }

    const std::string references = (folder.path() / "r.jsonl").string();
    write_text(references,
               "{\"video\": \"a\\nb.mp4\", \"caption\": \"비\"}\n"
               "{\"video\": \"=1+1.mp4\", \"caption\": \"눈\"}\n"
               "{\"video\": \"c\\\\xff.mp4\", \"caption\": \"꽃\"}\n");
    const Finished scored = run_cli({"eval", out, "--references", references, "--metrics", "chrf2",
                                     "--resamples", "10", "--per-clip", "-"});
    CHECK(scored.exit_code == 0);
    for (const char* name : {"a\\\\x0ab.mp4", "=1+1.mp4", "c\\\\xff.mp4"}) {
      CAPTURE(name);
      CHECK(scored.out.find("\"video\": \"" + std::string(name) + "\", \"status\": \"scored\"") !=
            std::string::npos);
    }
  }
}

}  // namespace
}  // namespace caption::test
