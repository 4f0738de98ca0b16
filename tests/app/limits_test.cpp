// Limits and missing resources of the system: address space, descriptors, file size, stacks, closed
// standard streams. The command must end by itself with a message and the exit code for the missing
// resource.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <string>
#include <vector>

#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

constexpr rlim_t kMegabyte = rlim_t{1} << 20;
constexpr unsigned kTimeLimitS = 30;

std::string clip() { return sample_video("city-000-h264.mp4").string(); }

Finished run_in(const fs::path& folder, Surroundings surroundings,
                const std::vector<std::string>& arguments) {
  surroundings.folder = folder;
  surroundings.limits.emplace_back(RLIMIT_CORE, 0);
  surroundings.time_limit_s = kTimeLimitS;
  return run_cli_in(surroundings, arguments);
}

std::vector<std::string> small_run(std::vector<std::string> more) {
  more.insert(more.begin(), {"run", clip(), "--frames", "2", "--max-new-tokens", "8"});
  return more;
}

// Checks that a limited run ended by itself and reported the reason if a clip has no caption. The
// dynamic loader is limited too and may fail before main() with exit code 127.
void check_limited(const Finished& finished, const fs::path& output, const std::set<int>& codes) {
  CAPTURE(finished.exit_code);
  CAPTURE(finished.err);
  const bool is_loaders = finished.exit_code == 127 &&
                          finished.err.find("error while loading shared") != std::string::npos;
  CHECK((is_loaders || codes.count(finished.exit_code) == 1));
  if (finished.exit_code != 0) CHECK(finished.err.ends_with("\n"));
  const std::vector<records::Record> records = parse_records(read_text(output));
  if (finished.exit_code == 0) CHECK(records.size() == 1);
  for (const records::Record& record : records) {
    if (finished.exit_code == 0) CHECK_FALSE(record.error.has_value());
    if (record.error) CHECK(record.error->code == "out_of_memory");
  }
}

TEST_SUITE("app/limits") {
  TEST_CASE("address space: exit code 4, or captions") {
    bool any_refused = false;
    bool any_captioned = false;
    int num_ended_by_libraries = 0;
    for (rlim_t megabytes = 100; megabytes <= 1500; megabytes += megabytes < 500 ? 10 : 100) {
      CAPTURE(megabytes);
      const TemporaryFolder folder;
      // The libraries' initialisers may end the process before main(): those of Debian 13's TBB do
      // so near 200 MB.
      const Finished version =
          run_in(folder.path(), {.limits = {{RLIMIT_AS, megabytes * kMegabyte}}}, {"--version"});
      if (version.exit_code == 128 + SIGSEGV && version.out.empty() && version.err.empty()) {
        const std::string figure = std::to_string(megabytes) + " MB";
        MESSAGE("not tested: a library ends the process before main() with " << figure);
        ++num_ended_by_libraries;
        continue;
      }
      const Finished finished =
          run_in(folder.path(), {.limits = {{RLIMIT_AS, megabytes * kMegabyte}}},
                 small_run({"-o", "c.jsonl"}));
      check_limited(finished, folder.path() / "c.jsonl", {0, 1, 4});
      any_refused = any_refused || finished.exit_code == 4;
      any_captioned = any_captioned || finished.exit_code == 0;
    }
    CHECK(any_refused);
    CHECK(any_captioned);
    CHECK(num_ended_by_libraries <= 2);
  }

  TEST_CASE("descriptors: exit code 4, a failed clip, or captions") {
    for (rlim_t descriptors = 3; descriptors <= 24; ++descriptors) {
      for (const bool has_cache : {false, true}) {
        CAPTURE(descriptors);
        CAPTURE(has_cache);
        const TemporaryFolder folder;
        std::vector<std::string> more = {"-o", "c.jsonl"};
        if (has_cache) more.insert(more.end(), {"--kv-cache-dir", "kv"});
        const Finished finished =
            run_in(folder.path(), {.limits = {{RLIMIT_NOFILE, descriptors}}}, small_run(more));
        check_limited(finished, folder.path() / "c.jsonl", {0, 1, 4});
        if (descriptors == 24) CHECK(finished.exit_code == 0);
      }
    }
  }

  TEST_CASE("size of files: exit code 5 and nothing torn") {
    for (const rlim_t bytes : {0, 100, 300, 1000, 4000}) {
      CAPTURE(bytes);
      const TemporaryFolder folder;
      const Finished finished =
          run_in(folder.path(), {.limits = {{RLIMIT_FSIZE, bytes}}}, small_run({"-o", "c.jsonl"}));
      check_limited(finished, folder.path() / "c.jsonl", {0, 5});
      if (bytes == 0) CHECK(finished.exit_code == 5);
      if (finished.exit_code == 5) CHECK(finished.err.find("File too large") != std::string::npos);
    }
    const std::vector<std::vector<std::string>> commands = {
        small_run({}), {"--help"}, {"inspect", "--machine"}, {"inspect", clip(), "-o", "x.png"}};
    for (const std::vector<std::string>& arguments : commands) {
      CAPTURE(arguments.front());
      const TemporaryFolder folder;
      const Finished finished = run_in(folder.path(), {.limits = {{RLIMIT_FSIZE, 0}}}, arguments);
      CAPTURE(finished.err);
      CHECK(finished.exit_code == 5);
      CHECK(finished.err.find("error: ") != std::string::npos);
      CHECK(finished.out.empty());
    }
  }

  TEST_CASE("a report that cannot be written leaves the earlier one whole") {
    const TemporaryFolder folder;
    const fs::path chart = folder.path() / "chart.svg";
    const std::vector<std::string> arguments = {"plan",    "--fit",      "--card", "t4",
                                                "--model", "qwen3-0.6b", "--svg",  "chart.svg"};
    REQUIRE(run_in(folder.path(), {}, arguments).exit_code == 4);  // a T4 is not here
    fs::permissions(chart, fs::perms::owner_read | fs::perms::owner_write);
    const std::string earlier = read_text(chart);
    const Finished full =
        run_in(folder.path(), {.limits = {{RLIMIT_FSIZE, earlier.size() - 1}}}, arguments);
    CAPTURE(full.err);
    CHECK(full.exit_code == 5);
    CHECK(full.err.find("File too large") != std::string::npos);
    CHECK((read_text(chart) == earlier));
    CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
    CHECK(run_in(folder.path(), {}, arguments).exit_code == 4);
    CHECK(read_text(chart).ends_with("</svg>\n"));
    CHECK(fs::status(chart).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  }

  TEST_CASE("stacks: captions, whatever their limit") {
    for (const rlim_t kilobytes : {128, 192, 512, 1024}) {
      CAPTURE(kilobytes);
      const TemporaryFolder folder;
      const Finished finished = run_in(folder.path(), {.limits = {{RLIMIT_STACK, kilobytes << 10}}},
                                       small_run({"-o", "c.jsonl", "--kv-cache-dir", "kv"}));
      CHECK(finished.exit_code == 0);
      check_limited(finished, folder.path() / "c.jsonl", {0});
    }
  }

  TEST_CASE("closed standard streams: log lines never reach the output file") {
    const std::vector<std::vector<int>> closed = {{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 1, 2}};
    for (const std::vector<int>& descriptors : closed) {
      CAPTURE(descriptors.front());
      CAPTURE(descriptors.back());
      const TemporaryFolder folder;
      const Finished finished = run_in(folder.path(), {.closed_descriptors = descriptors},
                                       small_run({"-o", "c.jsonl", "--kv-cache-dir", "kv"}));
      CHECK(finished.exit_code == 0);
      CHECK(finished.out.empty());
      CHECK(parse_records(read_text(folder.path() / "c.jsonl")).size() == 1);
    }
  }

  TEST_CASE("a standard output that takes nothing is exit code 5, one that nobody reads is 141") {
    const std::vector<std::vector<std::string>> commands = {
        {"--help"},
        {"--version"},
        {"run", "--help"},
        {"presets"},
        {"inspect", "--machine"},
        {"completion", "bash"},  // longer than a buffer
        small_run({"-q"})};
    for (const std::vector<std::string>& arguments : commands) {
      CAPTURE(arguments.front());
      const TemporaryFolder folder;
      const Finished full = run_in(folder.path(), {.out = "/dev/full"}, arguments);
      CHECK(full.exit_code == 5);
      CHECK(full.err.find("standard output: cannot write: No space left on device (make room, ") !=
            std::string::npos);
      CHECK(std::count(full.err.begin(), full.err.end(), '\n') == 1);
      const Finished unread = run_in(folder.path(), {.nobody_reads_out = true}, arguments);
      CAPTURE(unread.err);
      CHECK(unread.exit_code == 141);
      CHECK(unread.err.find("error") == std::string::npos);
    }
  }
}

}  // namespace
}  // namespace caption::test
