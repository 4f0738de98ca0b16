// SIGKILL at random moments of runs, retries, overwrites and compactions, with the folder of clips
// moved in between: no record is lost, duplicated or torn.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShort = "5";  // tokens: every caption is truncated
constexpr const char* kLong = "9";

struct Archive {
  fs::path folder;
  fs::path out;
  int num_moves = 0;

  fs::path films() const { return folder / ("films" + std::to_string(num_moves)); }
  void move() {
    const fs::path before = films();
    ++num_moves;
    fs::rename(before, films());
  }
  std::vector<std::string> command(const char* tokens, std::vector<std::string> rest = {}) const {
    std::vector<std::string> all = {
        "run",           "-o", out.string(), "--frames", "2", "-q", "--max-new-tokens", tokens,
        films().string()};
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  }
};

using Captions = std::map<std::string, std::string>;  // keyed by the content's id

Captions captions_of(const fs::path& out) {
  Captions captions;
  for (const auto& record : parse_records(read_text(out))) {
    CHECK(captions.emplace(record.id, record.caption).second);
  }
  return captions;
}

// Returns the complete lines of an output; a kill may leave a torn last one.
std::vector<records::Record> whole_records(const fs::path& out) {
  if (!fs::exists(out)) return {};
  const std::string text = read_text(out);
  return parse_records(text.substr(0, text.rfind('\n') + 1));
}

TEST_SUITE("app/kill") {
  TEST_CASE("a hundred SIGKILLs lose nothing, repeat nothing and tear nothing") {
    const TemporaryFolder folder;
    Archive archive{.folder = folder.path(), .out = folder.path() / "c.jsonl"};
    fs::create_directory(archive.films());
    std::vector<fs::path> samples = small_videos();
    samples.resize(samples.size() / 2);
    for (const fs::path& sample : samples) {
      fs::copy_file(sample, archive.films() / sample.filename());
    }
    const std::size_t num_clips = samples.size();
    Archive whole = archive;
    whole.out = folder.path() / "short.jsonl";
    REQUIRE(run_cli(whole.command(kShort)).exit_code == 0);
    const Captions short_captions = captions_of(whole.out);
    whole.out = folder.path() / "long.jsonl";
    REQUIRE(run_cli(whole.command(kLong)).exit_code == 0);
    const Captions long_captions = captions_of(whole.out);
    REQUIRE(short_captions.size() == num_clips);

    std::mt19937 random(20);
    std::set<std::string> captioned;
    int num_killed = 0;
    // Shortens the next delays when runs end before they are killed, and lengthens them until all
    // clips are captioned, to adapt to the machine's speed.
    constexpr double kMostMs = 450;
    constexpr double kMostUntilCaptionedMs = 20'000;
    double longest_ms = kMostMs;
    for (int round = 0; num_killed < 100 && round < 2000; ++round) {
      CAPTURE(round);
      std::vector<std::string> command = archive.command(kShort);
      // Commands must fit the manifest once there are records; before, any command may begin anew.
      const bool has_records = !whole_records(archive.out).empty();
      if (has_records && round % 4 == 1) command = archive.command(kLong, {"--retry", "truncated"});
      if (round % 4 == 3) command = archive.command(kShort, {"--overwrite"});
      const pid_t child = start_cli(command, folder.path() / "err");
      const double delay_ms = longest_ms * static_cast<double>(random() % 1000) / 1000;
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(delay_ms));
      ::kill(child, SIGKILL);
      const int exit_code = wait_for(child);
      num_killed += exit_code == 128 + SIGKILL ? 1 : 0;
      const double most_ms = captioned.size() == num_clips ? kMostMs : kMostUntilCaptionedMs;
      longest_ms =
          exit_code == 0 ? std::max(20.0, longest_ms * 0.8) : std::min(most_ms, longest_ms * 1.1);
      const bool is_known = exit_code == 128 + SIGKILL || exit_code == 0;
      CHECK_MESSAGE(is_known, read_text(folder.path() / "err"));
      std::set<std::string> now;
      for (const records::Record& record : whole_records(archive.out)) {
        const bool is_right = record.caption == short_captions.at(record.id) ||
                              record.caption == long_captions.at(record.id);
        CHECK(is_right);
        now.insert(record.id);
      }
      CHECK(std::includes(now.begin(), now.end(), captioned.begin(), captioned.end()));
      captioned = now;
      if (round % 5 == 4) archive.move();
    }
    CHECK(num_killed == 100);
    CHECK(archive.num_moves >= 20);

    const Finished last = run_cli(archive.command(kShort));
    CHECK_MESSAGE(last.exit_code == 0, last.err);
    std::set<std::string> places;
    const std::vector<records::Record> records = parse_records(read_text(archive.out));
    CHECK(records.size() == num_clips);
    for (const records::Record& record : records) {
      CHECK(places.insert(record.file->path).second);
      CHECK(fs::path(record.file->path).parent_path() == archive.films());
      CHECK(captioned.insert(record.id).second == false);
    }
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      CHECK(entry.path().extension() != ".compact");
    }
  }
}

}  // namespace
}  // namespace caption::test
