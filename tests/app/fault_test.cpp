// The n-th call of a kind is refused, for every n of a small command: whatever it is, the command
// ends by itself with a documented exit code and a sentence, leaves only whole records, and the
// same command afterwards finishes the work.
//
// tests/support/fault_injector.cpp refuses. Allocations are too many to refuse each: a geometric
// and a random sample is taken.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kTimeLimitS = 20;
constexpr int kNumWorkers = 2;

// What is run, in a folder of its own; paths in `arguments` are absolute or relative to it.
struct Command {
  const char* name;
  std::vector<std::string> arguments;
  const char* output;  // its records, or null when it has none
};

struct Fault {
  std::string kind;
  long number = 0;
  std::string text() const { return kind + ":" + std::to_string(number); }
};

using Captions = std::map<std::string, std::string>;  // by video; the last record counts

struct Reference {
  Captions captions;
  std::string out;
  std::map<std::string, long> counts;  // calls of each kind
};

std::vector<std::string> run_arguments(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"run",
                                        sample_video("city-000-h264.mp4").string(),
                                        sample_video("mountain-011-av1.mp4").string(),
                                        "--frames",
                                        "2",
                                        "--max-new-tokens",
                                        "8"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

Finished run_with(const Command& command, const fs::path& folder, Environment environment) {
  environment.emplace_back("LD_PRELOAD", CAPTION_FAULT_INJECTOR);
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
  for (const records::Record& record : parse_records(read_text(folder / command.output))) {
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
  const fs::path counts = folder.path() / "counts";
  const Finished finished =
      run_with(command, folder.path(), {{"CAPTION_FAULT_COUNTS", counts.string()}});
  INFO(finished.err);
  REQUIRE(finished.exit_code == 0);
  return {.captions = read_captions(command, folder.path()),
          .out = finished.out,
          .counts = read_counts(counts)};
}

// "error: module: sentence", "warning: module: ..." or "module: ...".
bool is_log_line(std::string line) {
  // hunspell's own words; what they mean for the command is said by another line or nothing.
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
  if (finished.exit_code < 0 || finished.exit_code > 5) {
    return "exit code " + std::to_string(finished.exit_code);
  }
  return check_stderr(finished);
}

// The clips that have a caption have the right one.
std::string check_captions(const Reference& reference, const Captions& captions) {
  for (const auto& [video, caption] : captions) {
    if (caption.starts_with("failed: ")) continue;
    const auto expected = reference.captions.find(video);
    if (expected == reference.captions.end()) return "a record of " + video;
    if (expected->second != caption) return "another caption of " + video + ": " + caption;
  }
  return {};
}

// What is wrong after the fault; empty when nothing is.
std::string find_harm(const Command& command, const Reference& reference, const Finished& finished,
                      const fs::path& folder) {
  std::string harm = check_ending(finished);
  if (!harm.empty()) return harm;
  try {
    const Captions captions = read_captions(command, folder);
    harm = check_captions(reference, captions);
    if (!harm.empty()) return harm;
    if (finished.exit_code == 0) {
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

std::string try_fault(const Command& command, const Reference& reference, const Fault& fault) {
  const TemporaryFolder folder;
  const fs::path work = folder.path() / "work";
  const fs::path trace = folder.path() / "trace";
  fs::create_directory(work);
  const Finished finished = run_with(
      command, work, {{"CAPTION_FAULT", fault.text()}, {"CAPTION_FAULT_TRACE", trace.string()}});
  const std::string harm = find_harm(command, reference, finished, work);
  if (harm.empty()) return {};
  return std::string(command.name) + " " + fault.text() + ": " + harm + "\n" + finished.err +
         read_text(trace);
}

// Every number up to `most`, or a sample of at most `size` of them: 1, then a factor apart, and as
// many at random.
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

// The runs are started by several threads; what they found is checked by the caller's.
void try_all(const Command& command, const std::map<std::string, std::size_t>& sizes) {
  const Reference reference = run_undisturbed(command);
  std::vector<Fault> faults;
  for (const auto& [kind, size] : sizes) {
    CAPTURE(kind);
    REQUIRE(reference.counts.contains(kind));
    for (const long number : numbers_to_try(reference.counts.at(kind), size, 20)) {
      faults.push_back({kind, number});
    }
  }
  std::vector<std::string> harms(faults.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < faults.size(); i = next++) {
      harms[i] = try_fault(command, reference, faults[i]);
    }
  };
  std::vector<std::thread> workers;
  for (int i = 0; i < kNumWorkers; ++i) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
  for (const std::string& harm : harms) CHECK_MESSAGE(harm.empty(), harm);
}

constexpr std::size_t kAll = 500;

TEST_SUITE("app/fault") {
  TEST_CASE("the injector counts, and refuses the call that it is asked to") {
    const Command command{"run", run_arguments({"-o", "c.jsonl"}), "c.jsonl"};
    const Reference reference = run_undisturbed(command);
    for (const char* kind :
         {"thread", "malloc", "open", "write", "mmap", "fsync", "rename", "read"}) {
      CAPTURE(kind);
      CHECK(reference.counts.at(kind) > 0);
    }
    CHECK(reference.captions.size() == 2);
    const TemporaryFolder folder;
    const Finished finished = run_with(command, folder.path(), {{"CAPTION_FAULT", "rename:1"}});
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
             {"read", kAll},
             {"malloc", 150}});
  }

  TEST_CASE("run with a cache folder that holds all") {
    const TemporaryFolder folder;
    const std::string cache = (folder.path() / "kv").string();
    const std::vector<std::string> arguments =
        run_arguments({"-o", "c.jsonl", "--kv-cache-dir", cache});
    CHECK(run_cli_in({.folder = folder.path()}, arguments).exit_code == 0);
    try_all({"run from the cache", arguments, "c.jsonl"},
            {{"thread", kAll}, {"open", 40}, {"read", kAll}, {"malloc", 50}});
  }

  TEST_CASE("run without a cache folder") {
    try_all({"run", run_arguments({"-o", "c.jsonl"}), "c.jsonl"},
            {{"thread", kAll}, {"write", kAll}, {"fsync", kAll}, {"malloc", 50}});
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
    // A dictionary of one word: the Korean one takes a second to load.
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
