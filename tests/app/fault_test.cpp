// Makes the n-th call of a kind fail, for every n of a small command. The command must then end by
// itself with a documented exit code and a message, leave only complete records, and the same
// command must afterwards finish the work.
//
// No usable caption that the output held before may be lost, whether the output is overwritten,
// retried, compacted or carried over to new names of clips.
//
// tests/support/fault_injector.cpp makes the calls fail. Allocations are too many to try each, so a
// geometric and a random sample is used, and of calls that change nothing a third of one, unless
// the tests are to be thorough. The numbers of calls are printed, and the call that failed.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "tests/app/process.h"
#include "tests/support/thorough.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kTimeLimitS = 20;
constexpr int kNumWorkers = 2;

// A command, run in a separate folder; paths in `arguments` are absolute or relative to it.
struct Command {
  const char* name;
  std::vector<std::string> arguments;
  const char* output;  // file of its records; null if it has none
  // Prepares the folder as earlier runs would leave it; may be empty.
  std::function<void(const fs::path&)> prepare = {};
  bool overwrites = false;
};

struct Fault {
  std::string kind;
  long number = 0;
  std::string text() const { return kind + ":" + std::to_string(number); }
};

using Captions = std::map<std::string, std::string>;     // keyed by video; the last record is valid
using SampleSizes = std::map<std::string, std::size_t>;  // kind -> number of calls to make fail

struct Reference {
  Captions before;    // captions after prepare()
  Captions captions;  // captions made by the command
  std::string out;
  std::map<std::string, long> counts;  // calls of each kind
};

std::vector<std::string> run_arguments(std::vector<std::string> more,
                                       const std::string& max_new_tokens = "4") {
  std::vector<std::string> arguments = {"run",
                                        sample_video("city-000-h264.mp4").string(),
                                        sample_video("mountain-011-av1.mp4").string(),
                                        "--frames",
                                        "1",
                                        "--max-new-tokens",
                                        max_new_tokens};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Runs the command with a digest cache in `folder`, which the first run there fills.
Finished run_with(const Command& command, const fs::path& folder, Environment environment) {
  environment.emplace_back("LD_PRELOAD", CAPTION_FAULT_INJECTOR);
  environment.emplace_back("XDG_CACHE_HOME", (folder / "xdg").string());
  return run_cli_in({.folder = folder,
                     .environment = std::move(environment),
                     .limits = {{RLIMIT_CORE, 0}},
                     .closed_descriptors = {},
                     .out = {},
                     .time_limit_s = kTimeLimitS},
                    command.arguments);
}

Captions read_captions(const Command& command, const fs::path& folder) {
  Captions captions;
  if (command.output == nullptr) return captions;
  // Must not have a torn line either.
  parse_records(read_text(folder / (std::string(command.output) + ".new")));
  for (const records::Record& record : parse_records(read_text(folder / command.output))) {
    captions.erase(record.moved_from);
    captions[record.video] = record.error ? "failed: " + record.error->code : record.caption;
  }
  return captions;
}

std::map<std::string, long> read_counts(const fs::path& file) {
  std::map<std::string, long> counts;
  std::istringstream text(read_text(file));
  std::string kind;
  for (long count = 0; text >> kind >> count;) counts[kind] = count;
  return counts;
}

Reference run_undisturbed(const Command& command) {
  const TemporaryFolder folder;
  if (command.prepare) command.prepare(folder.path());
  const Captions before = read_captions(command, folder.path());
  const fs::path counts = folder.path() / "counts";
  const Finished finished =
      run_with(command, folder.path(), {{"CAPTION_FAULT_COUNTS", counts.string()}});
  INFO(finished.err);
  REQUIRE(finished.exit_code == 0);
  return {.before = before,
          .captions = read_captions(command, folder.path()),
          .out = finished.out,
          .counts = read_counts(counts)};
}

// Whether the line has the form "error: module: sentence", "warning: module: ..." or "module: ...".
bool is_log_line(std::string line) {
  // A message of hunspell itself; the command reports the consequence, if there is one.
  if (line.starts_with("error: /") && line.ends_with(": cannot open")) return true;
  for (const char* level : {"error: ", "warning: "}) {
    if (line.starts_with(level)) line.erase(0, std::string(level).size());
  }
  const std::size_t colon = line.find(": ");
  if (colon == std::string::npos || colon == 0 || line.size() == colon + 2) return false;
  return line.substr(0, colon).find_first_not_of("abcdefghijklmnopqrstuvwxyz-") ==
         std::string::npos;
}

std::string check_stderr(const Finished& finished) {
  if (finished.exit_code != 0 && finished.err.empty()) return "not a word on stderr";
  if (!finished.err.empty() && finished.err.back() != '\n') return "a torn line on stderr";
  std::istringstream lines(finished.err);
  for (std::string line; std::getline(lines, line);) {
    if (!is_log_line(line)) return "a line on stderr is no log line: " + line;
  }
  return {};
}

std::string check_ending(const Finished& finished) {
  if (finished.exit_code == 128 + SIGALRM) return "hangs";
  if (finished.exit_code > 128) {
    return "ended by signal " + std::to_string(finished.exit_code - 128);
  }
  // Exit codes 2 and 3 would blame the command line or the files, which are good.
  if (const std::set<int> codes = {0, 1, 4, 5}; !codes.contains(finished.exit_code)) {
    return "exit code " + std::to_string(finished.exit_code);
  }
  return check_stderr(finished);
}

bool is_failure(const std::string& caption) { return caption.starts_with("failed: "); }

std::size_t count_usable(const Captions& captions) {
  return static_cast<std::size_t>(std::count_if(
      captions.begin(), captions.end(), [](const auto& item) { return !is_failure(item.second); }));
}

// Clips with a caption must have the right one or the previous one.
std::string check_captions(const Reference& reference, const Captions& captions) {
  for (const auto& [video, caption] : captions) {
    if (is_failure(caption)) continue;
    const auto earlier = reference.before.find(video);
    if (earlier != reference.before.end() && earlier->second == caption) continue;
    const auto expected = reference.captions.find(video);
    if (expected == reference.captions.end()) return "a record of " + video;
    if (expected->second != caption) return "another caption of " + video + ": " + caption;
  }
  return {};
}

// An --overwrite that finished with exit code 1 may have replaced captions by failures.
std::string check_none_lost(const Command& command, const Reference& reference,
                            const Finished& finished, const Captions& captions) {
  const bool has_swapped = command.overwrites && finished.exit_code == 1;
  const std::size_t there = has_swapped ? captions.size() : count_usable(captions);
  const std::size_t wanted = count_usable(reference.before);
  if (there >= wanted) return {};
  return std::to_string(wanted) + " usable captions before, " + std::to_string(there) + " after";
}

// The clip of a failed retry keeps its record, and the run did what it could.
bool has_kept_records(const Finished& finished) {
  return finished.err.find("failed, or came out no better") != std::string::npos;
}

// Returns what is wrong after the fault; empty if nothing is.
std::string find_harm(const Command& command, const Reference& reference, const Finished& finished,
                      const fs::path& folder) {
  std::string harm = check_ending(finished);
  if (!harm.empty()) return harm;
  try {
    const Captions captions = read_captions(command, folder);
    harm = check_captions(reference, captions);
    if (harm.empty()) harm = check_none_lost(command, reference, finished, captions);
    if (!harm.empty()) return harm;
    if (finished.exit_code == 0 && !has_kept_records(finished)) {
      if (captions != reference.captions) return "exit code 0, but not all captions";
      if (finished.out != reference.out) return "exit code 0, but another output: " + finished.out;
      return {};
    }
    const Finished again = run_with(command, folder, {});
    if (again.exit_code != 0) {
      return "the next run has exit code " + std::to_string(again.exit_code) + ": " + again.err;
    }
    if (read_captions(command, folder) != reference.captions) return "records lost for good";
    if (command.output == nullptr && again.out != reference.out) return "another output after it";
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

struct Trial {
  std::string harm;
  int exit_code = 0;
};

Trial try_fault(const Command& command, const Reference& reference, const Fault& fault) {
  const TemporaryFolder folder;
  const fs::path work = folder.path() / "work";
  const fs::path trace = folder.path() / "trace";
  fs::create_directory(work);
  if (command.prepare) command.prepare(work);
  const Finished finished = run_with(
      command, work, {{"CAPTION_FAULT", fault.text()}, {"CAPTION_FAULT_TRACE", trace.string()}});
  std::string harm = find_harm(command, reference, finished, work);
  if (!harm.empty()) {
    harm = std::string(command.name) + " " + fault.text() + ": " + harm + "\n" + finished.err +
           read_text(trace);
  }
  return {.harm = harm, .exit_code = finished.exit_code};
}

// Returns every number up to `most`, or a sample of at most `size`: a geometric sequence from 1 and
// as many random numbers.
std::vector<long> numbers_to_try(long most, std::size_t size, unsigned seed) {
  std::set<long> numbers;
  if (most <= static_cast<long>(size)) {
    for (long number = 1; number <= most; ++number) numbers.insert(number);
    return {numbers.begin(), numbers.end()};
  }
  const double factor = std::pow(static_cast<double>(most), 2.0 / static_cast<double>(size));
  for (double number = 1; number <= static_cast<double>(most); number *= factor) {
    numbers.insert(static_cast<long>(number));
  }
  std::mt19937 random(seed);
  while (numbers.size() < size) {
    numbers.insert(1 + static_cast<long>(random() % static_cast<unsigned long>(most)));
  }
  return {numbers.begin(), numbers.end()};
}

// How many of `most` calls of a kind fail where `size` should.
std::size_t sample_size(const std::string& kind, std::size_t size, long most) {
  const bool changes_nothing = kind == "open" || kind == "read" || kind == "malloc";
  if (!changes_nothing || is_thorough()) return size;
  return (std::min(size, static_cast<std::size_t>(most)) + kThoroughShare - 1) / kThoroughShare;
}

std::vector<Fault> faults_to_try(const Command& command, const Reference& reference,
                                 const SampleSizes& sizes) {
  std::vector<Fault> faults;
  std::string refused;
  for (const auto& [kind, size] : sizes) {
    CAPTURE(kind);
    REQUIRE(reference.counts.contains(kind));
    const long most = reference.counts.at(kind);
    const std::vector<long> numbers = numbers_to_try(most, sample_size(kind, size, most), 20);
    for (const long number : numbers) faults.push_back({kind, number});
    refused += (refused.empty() ? "" : ", ") + kind + " " + std::to_string(numbers.size()) +
               " of " + std::to_string(most);
  }
  MESSAGE(std::string(command.name), ": refuses ", refused);
  return faults;
}

void describe(const Command& command, const std::vector<Trial>& trials) {
  std::map<int, int> counts;
  for (const Trial& trial : trials) ++counts[trial.exit_code];
  std::string codes;
  for (const auto& [code, count] : counts) {
    codes += ", exit code " + std::to_string(code) + ": " + std::to_string(count);
  }
  MESSAGE(std::string(command.name), ": ", trials.size(), " faulted runs", codes);
}

// Runs are started by several threads; the calling thread checks the results.
void try_all(const Command& command, const SampleSizes& sizes) {
  const Reference reference = run_undisturbed(command);
  const std::vector<Fault> faults = faults_to_try(command, reference, sizes);
  std::vector<Trial> trials(faults.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < faults.size(); i = next++) {
      trials[i] = try_fault(command, reference, faults[i]);
    }
  };
  std::vector<std::thread> workers;
  for (int i = 0; i < kNumWorkers; ++i) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
  for (const Trial& trial : trials) CHECK_MESSAGE(trial.harm.empty(), trial.harm);
  describe(command, trials);
}

// An output made by a run with these arguments, to be copied for each command.
class EarlierRun {
 public:
  explicit EarlierRun(const std::vector<std::string>& arguments) {
    const Finished finished = run_cli_in({.folder = folder_.path()}, arguments);
    INFO(finished.err);
    REQUIRE(finished.exit_code == 0);
  }
  void copy_to(const fs::path& folder) const {
    for (const char* name : {"c.jsonl", "c.jsonl.manifest.json"}) {
      fs::copy(folder_.path() / name, folder / name);
    }
  }

 private:
  TemporaryFolder folder_;
};

constexpr std::size_t kAll = 500;

// For runs that change an existing output: all calls that change it fail one by one, the others in
// a sample.
SampleSizes change_sizes() {
  return {{"thread", kAll}, {"open", 50},        {"write", kAll}, {"mmap", kAll}, {"fsync", kAll},
          {"rename", kAll}, {"ftruncate", kAll}, {"read", 30},    {"malloc", 30}};
}

TEST_SUITE("app/fault") {
  TEST_CASE("the injector counts, and refuses the call that it is asked to") {
    const Command command{"run", run_arguments({"-o", "c.jsonl"}), "c.jsonl"};
    const Reference reference = run_undisturbed(command);
    for (const char* kind :
         {"thread", "malloc", "open", "write", "mmap", "fsync", "rename", "read", "ftruncate"}) {
      CAPTURE(kind);
      REQUIRE(reference.counts.contains(kind));
      if (std::string(kind) != "ftruncate") CHECK(reference.counts.at(kind) > 0);
    }
    CHECK(reference.captions.size() == 2);
    const TemporaryFolder folder;
    const Finished finished = run_with(command, folder.path(), {{"CAPTION_FAULT", "fsync:1"}});
    CHECK(finished.exit_code == 5);
    CHECK(finished.err.find("Input/output error") != std::string::npos);
  }

  TEST_CASE("run with a cache folder") {
    try_all({"run", run_arguments({"-o", "c.jsonl", "--kv-cache-dir", "kv"}), "c.jsonl"},
            {{"thread", kAll},
             {"open", kAll},
             {"write", kAll},
             {"mmap", kAll},
             {"fsync", kAll},
             {"rename", kAll},
             {"read", 40},
             {"malloc", 80}});
  }

  TEST_CASE("run with a cache folder that holds all") {
    const TemporaryFolder folder;
    const std::string cache = (folder.path() / "kv").string();
    const std::vector<std::string> arguments =
        run_arguments({"-o", "c.jsonl", "--kv-cache-dir", cache});
    CHECK(run_cli_in({.folder = folder.path()}, arguments).exit_code == 0);
    try_all({"run from the cache", arguments, "c.jsonl"},
            {{"thread", kAll}, {"open", 40}, {"read", 30}, {"malloc", 30}});
  }

  TEST_CASE("run without a cache folder") {
    try_all({"run that trusts times", run_arguments({"-o", "c.jsonl", "--trust-times"}), "c.jsonl"},
            {{"thread", kAll}, {"write", kAll}, {"fsync", kAll}, {"malloc", 50}});
  }

  TEST_CASE("a thread that cannot start ends the run, also while a full queue holds decoders up") {
    // Two videos of 720 lines exceed the size of the queue between decoding and vision.
    const std::vector<std::string> arguments = {"run",
                                                sample_video("city-004-h264.mkv").string(),
                                                sample_video("river-014-vp9.webm").string(),
                                                "--frames",
                                                "56",
                                                "--max-new-tokens",
                                                "1"};
    // The first threads read the model's weights ahead, and a run may lack them.
    int num_refused = 0;
    for (int number = 1; number <= 8; ++number) {
      CAPTURE(number);
      const Finished finished =
          run_cli_in({.environment = {{"LD_PRELOAD", CAPTION_FAULT_INJECTOR},
                                      {"CAPTION_FAULT", "thread:" + std::to_string(number)}},
                      .limits = {{RLIMIT_CORE, 0}},
                      .time_limit_s = 120},
                     arguments);
      CAPTURE(finished.err);
      // The run may succeed if one of several decode threads could not start.
      CHECK((finished.exit_code == 0 || finished.exit_code == 4));
      if (finished.exit_code != 4) continue;
      ++num_refused;
      CHECK(finished.err.find("error: caption-cli: ") != std::string::npos);
    }
    CHECK(num_refused >= 3);
  }

  TEST_CASE("clips that are not there are not synced one by one") {
    constexpr int kNumClips = 1000;
    std::string list;
    for (int i = 0; i < kNumClips; ++i) list += "/nowhere/" + std::to_string(i) + ".mp4\n";
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "c.jsonl";
    const fs::path counts = folder.path() / "counts";
    const Finished finished = run_cli(
        {"run", "-q", "-o", out.string(), "-"}, list,
        {{"LD_PRELOAD", CAPTION_FAULT_INJECTOR}, {"CAPTION_FAULT_COUNTS", counts.string()}});
    CHECK(finished.exit_code == 1);
    CHECK(parse_records(read_text(out)).size() == kNumClips);
    CHECK(read_counts(counts).at("fsync") < kNumClips / 2);
  }

  TEST_CASE("run --overwrite over the output of a run with other settings") {
    const EarlierRun earlier(run_arguments({"-o", "c.jsonl"}, "2"));
    try_all({.name = "run --overwrite",
             .arguments = run_arguments({"-o", "c.jsonl", "--overwrite"}),
             .output = "c.jsonl",
             .prepare = [&](const fs::path& folder) { earlier.copy_to(folder); },
             .overwrites = true},
            change_sizes());
  }

  TEST_CASE("run --retry, which ends with a compaction") {
    const EarlierRun earlier(run_arguments({"-o", "c.jsonl"}, "2"));
    try_all({.name = "run --retry",
             .arguments = run_arguments({"-o", "c.jsonl", "--retry", "truncated"}),
             .output = "c.jsonl",
             .prepare = [&](const fs::path& folder) { earlier.copy_to(folder); }},
            change_sizes());
  }

  TEST_CASE("run over clips that have moved, and a copy of one") {
    const fs::path city = sample_video("city-000-h264.mp4");
    const fs::path mountain = sample_video("mountain-011-av1.mp4");
    const TemporaryFolder clips;
    fs::copy(city, clips.path() / "city.mp4");
    fs::copy(mountain, clips.path() / "mountain.mp4");
    const std::vector<std::string> flags = {"--frames", "1",  "--max-new-tokens",
                                            "4",        "-o", "c.jsonl"};
    std::vector<std::string> before = {"run", (clips.path() / "city.mp4").string(),
                                       (clips.path() / "mountain.mp4").string()};
    before.insert(before.end(), flags.begin(), flags.end());
    const EarlierRun earlier(before);
    fs::remove(clips.path() / "city.mp4");
    fs::remove(clips.path() / "mountain.mp4");
    std::vector<std::string> after = {"run", "city.mp4", "copy.mp4", "mountain.mp4"};
    after.insert(after.end(), flags.begin(), flags.end());
    try_all({.name = "run over moved clips",
             .arguments = after,
             .output = "c.jsonl",
             .prepare =
                 [&](const fs::path& folder) {
                   earlier.copy_to(folder);
                   fs::create_symlink(mountain, folder / "mountain.mp4");
                   fs::create_symlink(city, folder / "city.mp4");
                   fs::create_symlink(city, folder / "copy.mp4");
                 }},
            change_sizes());
  }

  TEST_CASE("eval") {
    const TemporaryFolder folder;
    const std::string captions = (folder.path() / "c.jsonl").string();
    CHECK(run_cli(run_arguments({"-q", "-o", captions})).exit_code == 0);
    const std::string references = (folder.path() / "references.jsonl").string();
    write_text(references,
               R"({"video": "city-000-h264.mp4", "captions": ["비 내리는 도시를 찍은 영상이다."]})"
               "\n"
               R"({"video": "mountain-011-av1.mp4", "captions": ["산을 찍은 영상이다."]})"
               "\n");
    // Uses a dictionary of one word, because the Korean one takes a second to load.
    const std::string dictionary = (folder.path() / "ko").string();
    write_text(dictionary + ".aff", "SET UTF-8\n");
    write_text(dictionary + ".dic", "1\n하늘이\n");
    try_all({"eval",
             {"eval", captions, "--references", references, "--resamples", "10", "--dictionary",
              dictionary, "--json", "r.json"},
             nullptr},
            {{"open", kAll}, {"write", kAll}, {"mmap", kAll}, {"read", kAll}, {"malloc", 60}});
  }

  TEST_CASE("inspect") {
    try_all({"inspect",
             {"inspect", sample_video("city-000-h264.mp4").string(), "--frames", "2", "-o", "x.png",
              "--dump-frames", "frames"},
             nullptr},
            {{"open", kAll}, {"write", kAll}, {"mmap", kAll}, {"read", 30}, {"malloc", 60}});
  }
}

}  // namespace
}  // namespace caption::test
