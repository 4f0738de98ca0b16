// kill -9 at any time: no finished record is lost or duplicated, and no line is torn.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "base/log.h"
#include "records/internal/lines.h"
#include "records/record_file.h"
#include "sample_record.h"

namespace caption::records {
namespace {

const Manifest kManifest{{{"seed", "20"}}};
constexpr int kNumClips = 400;

std::string clip_name(int i) { return "clip_" + std::to_string(i) + ".mp4"; }

// Acts as a run: makes a record for each clip that the file lacks. After append() has returned,
// writes the clip's number to `acknowledged`.
void write_all(const std::filesystem::path& path, int acknowledged) {
  RecordFile file(path, Format::kJsonl, kManifest, Existing::kResume, kRetryFailed);
  for (int i = 0; i < kNumClips; ++i) {
    const ClipIdentity clip{.file = {.path = clip_name(i)}};
    if (file.find(clip, clip_name(i), {}).kind != Earlier::Kind::kNone) continue;
    // Every third clip fails the first time, so that compaction has lines to drop.
    const bool fails = i % 3 == 0 && file.num_found() < kNumClips / 2;
    file.append(fails ? failed_record(clip_name(i)) : sample_record(clip_name(i)));
    if (!fails && ::write(acknowledged, &i, sizeof i) != sizeof i) ::_exit(1);
    // Compacts now and then, so that compactions are interrupted too.
    if (i % 50 == 49) {
      file.finish();
      return;
    }
  }
  file.finish();
}

// Runs write_all() in a child that is killed after `delay_us`; returns whether it finished before.
bool run_and_kill(const std::filesystem::path& path, std::int64_t delay_us,
                  std::set<int>& acknowledged) {
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(pipe_ends[0]);
    write_all(path, pipe_ends[1]);
    ::_exit(0);
  }
  ::close(pipe_ends[1]);
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    ::kill(child, SIGKILL);
  });
  for (int i = 0; ::read(pipe_ends[0], &i, sizeof i) == sizeof i;) acknowledged.insert(i);
  ::close(pipe_ends[0]);
  killer.join();
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_SUITE("records/kill") {
  TEST_CASE("a writer killed at random instants loses nothing and repeats nothing") {
    set_log_level(LogLevel::kError);
    const Folder folder;
    const std::filesystem::path path = folder / "c.jsonl";
    std::mt19937 random(20);
    std::set<int> acknowledged;
    bool is_done = false;
    std::uint32_t most_us = 30'000;  // until it is killed; more where a slow machine wrote nothing
    for (int round = 0; round < 200 && !is_done; ++round) {
      is_done =
          run_and_kill(path, 500 + static_cast<std::int64_t>(random() % most_us), acknowledged);
      if (acknowledged.empty()) most_us = std::min(2 * most_us, 2'000'000U);
      if (!std::filesystem::exists(path)) continue;
      const std::string text = read_file(path);
      std::map<std::string, Status> last;
      for_each_line(text, [&](std::string_view line) {
        const Record record = parse_json_line(line.substr(0, line.size() - 1));  // no torn line
        Status& status = last.try_emplace(record.video, record.status).first->second;
        // A failure never replaces a caption.
        CHECK((status != Status::kOk || record.status == Status::kOk));
        status = record.status;
      });
      for (const int i : acknowledged) CHECK(last[clip_name(i)] == Status::kOk);  // none is lost
      is_done = is_done && last.size() == kNumClips &&
                std::all_of(last.begin(), last.end(),
                            [](const auto& entry) { return entry.second == Status::kOk; });
    }
    write_all(path, ::open("/dev/null", O_WRONLY));
    set_log_level(LogLevel::kInfo);
    CHECK(acknowledged.size() > 0);
  }
}

}  // namespace
}  // namespace caption::records
