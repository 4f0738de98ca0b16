// Tests that interrupted, killed and continued runs caption every clip exactly once.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "tests/app/folders.h"
#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

// Fills a folder with many links to the samples, for a run that is long enough to be interrupted.
void fill(const fs::path& folder, int count) {
  fs::create_directories(folder);
  const std::vector<fs::path> samples = sample_videos();
  for (int i = 0; i < count; ++i) {
    const fs::path& sample = samples[static_cast<std::size_t>(i) % samples.size()];
    fs::create_symlink(sample, folder / (std::to_string(i) + sample.extension().string()));
  }
}

std::map<std::string, std::string> captions_of(const fs::path& file) {
  std::map<std::string, std::string> captions;
  for (const records::Record& record : parse_records(read_text(file))) {
    CHECK(captions.emplace(record.video, record.caption).second);  // no duplicates
  }
  return captions;
}

std::size_t lines_of(const fs::path& file) {
  const std::string text = read_text(file);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

void wait_for_lines(const fs::path& file, std::size_t count) {
  for (int i = 0; i < 6000 && lines_of(file) < count; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST_SUITE("app/resume") {
  TEST_CASE("the same command again does only what is left, and nothing when all is done") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::string a = sample_video("city-000-h264.mp4").string();
    const std::string b = sample_video("bridge-006-h264.mp4").string();
    CHECK(run_cli({"run", "-o", out, a}).exit_code == 0);
    const std::string first = read_text(out);
    CHECK(run_cli({"run", "-o", out, a, b}).exit_code == 0);
    CHECK(read_text(out).starts_with(first));
    CHECK(captions_of(out).size() == 2);
    const std::string both = read_text(out);
    const Finished again = run_cli({"run", "-o", out, a, b});
    CHECK(again.exit_code == 0);
    CHECK(again.err.find("2 of 2 clips are in it") != std::string::npos);
    CHECK(read_text(out) == both);
  }

  TEST_CASE("failed clips are tried again on wish, or when they have become other files") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    const fs::path late = folder.path() / "late.mp4";
    const std::string good = sample_video("city-000-h264.mp4").string();
    write_text(late, "no film yet");
    CHECK(run_cli({"run", "-o", out, late.string(), good}).exit_code == 1);
    const std::string before = read_text(out);
    const Finished again = run_cli({"run", "-o", out, late.string(), good});
    CHECK(again.exit_code == 1);
    CHECK(again.err.find("1 of them failed (--retry-failed") != std::string::npos);
    const Finished quiet = run_cli({"run", "-q", "-o", out, late.string(), good});
    CHECK(quiet.exit_code == 1);
    CHECK(quiet.err.find("1 of them failed (--retry-failed") != std::string::npos);
    CHECK(read_text(out) == before);
    // Failed clips in the file that the command does not name are not counted.
    const Finished only_good = run_cli({"run", "-o", out, good});
    CHECK(only_good.exit_code == 0);
    CHECK(only_good.err.find("resumed; 1 of 1 clip is in it\n") != std::string::npos);
    CHECK(only_good.err.find("nothing to caption\n") != std::string::npos);
    CHECK(only_good.err.find("failed") == std::string::npos);
    CHECK(run_cli({"run", "-o", out, "--retry-failed", late.string(), good}).exit_code == 1);
    CHECK(captions_of(out).at(late.string()) == "");
    fs::copy(sample_video("bridge-006-h264.mp4"), late, fs::copy_options::overwrite_existing);
    CHECK(run_cli({"run", "-o", out, late.string(), good}).exit_code == 0);
    CHECK(captions_of(out).size() == 2);
    CHECK(captions_of(out).at(late.string()) != "");
  }

  TEST_CASE("a torn last line is said to be cut off, and whose it was where that is whole") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::string a = sample_video("city-000-h264.mp4").string();
    const std::string b = sample_video("bridge-006-h264.mp4").string();
    REQUIRE(run_cli({"run", "-q", "-o", out, a}).exit_code == 0);
    const std::string whole = read_text(out);
    const std::string named = whole.substr(0, whole.size() / 2);
    for (const auto& [text, who] :
         {std::pair(named, a), std::pair(whole.substr(0, 9), std::string("its clip"))}) {
      CAPTURE(text);
      REQUIRE(run_cli({"run", "-q", "-o", out, "--overwrite", b}).exit_code == 0);
      const std::string before = read_text(out);
      write_text(out, before + text);
      const Finished again = run_cli({"run", "-o", out, b});
      CHECK(again.exit_code == 0);
      CHECK(again.err.find("the last line is torn (" + std::to_string(text.size()) +
                           " bytes of an interrupted write) and is cut off; " + who +
                           " is captioned again if it is among the clips of this run\n") !=
            std::string::npos);
      CHECK(read_text(out) == before);
    }
  }

  TEST_CASE("a line that is no record any more is named, and its clip is captioned again") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::string a = small_video("city-000-h264.mp4").string();
    const std::string b = small_video("bridge-006-h264.mp4").string();
    REQUIRE(run_cli({"run", "-q", "-o", out, a, b}).exit_code == 0);
    const std::map<std::string, std::string> captions = captions_of(out);
    std::string kept;
    for (const std::size_t line : {std::size_t{1}, std::size_t{2}}) {
      CAPTURE(line);
      const std::string now = read_text(out);
      const std::size_t begin = line == 1 ? 0 : now.find('\n') + 1;
      const std::size_t end = now.find('\n', begin) + 1;
      const std::string film = parse_records(now.substr(begin, end - begin)).at(0).video;
      std::string flipped = now;
      flipped[now.find("\"status\"", begin) + 8] ^= 1;  // a quotation mark
      write_text(out, flipped);
      kept += flipped.substr(begin, end - begin);
      const Finished again = run_cli({"run", "-o", out, a, b});
      CAPTURE(again.err);
      CHECK(again.exit_code == 0);
      CHECK(again.err.find("c.jsonl:" + std::to_string(line) + ": not a caption record (") !=
            std::string::npos);
      CHECK(again.err.find("); it does not count, " + film + " is captioned again if") !=
            std::string::npos);
      CHECK(again.err.find("run: 1 clip captioned in") != std::string::npos);
      CHECK(captions_of(out) == captions);
      CHECK(read_text(out + ".damaged") == kept);
    }
    // A file that nothing in it says to be one of records is not touched.
    write_text(out, "notes\n");
    const Finished foreign = run_cli({"run", "-o", out, a, b});
    CHECK(foreign.exit_code == 2);
    CHECK(foreign.err.find("c.jsonl:1: not a caption record (") != std::string::npos);
    CHECK(read_text(out) == "notes\n");
  }

  TEST_CASE("a line that is no record is never joined to what lies under the name of its place") {
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "c.jsonl";
    const fs::path damaged = folder.path() / "c.jsonl.damaged";
    const std::string a = small_video("city-000-h264.mp4").string();
    REQUIRE(run_cli({"run", "-q", "-o", out.string(), a}).exit_code == 0);
    const std::string record = read_text(out);
    const std::string bad = "{\"video\": \"x.mp4\"\n";
    write_text(out, bad + record);
    fs::create_directory(damaged);
    const Finished refused = run_cli({"run", "-q", "-o", out.string(), a});
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find(damaged.string() + ": is no file of its own; move it away") !=
          std::string::npos);
    CHECK(read_text(out) == bad + record);
    fs::remove(damaged);
    write_text(damaged, "notes");
    CHECK(run_cli({"run", "-q", "-o", out.string(), a}).exit_code == 0);
    CHECK(read_text(damaged) == "notes\n" + bad);
    CHECK(read_text(out) == record);
  }

  TEST_CASE("a record whose digest of the clip is another one is made again") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::string a = small_video("city-000-h264.mp4").string();
    REQUIRE(run_cli({"run", "-q", "-o", out, a}).exit_code == 0);
    const std::string before = read_text(out);
    std::string flipped = before;
    char& digit = flipped[before.find("\"id\":\"") + 6];
    digit = digit == '0' ? '1' : '0';
    write_text(out, flipped);
    const Finished again = run_cli({"run", "-o", out, a});
    CHECK(again.exit_code == 0);
    CHECK(again.err.find("run: 1 clip captioned in") != std::string::npos);
    CHECK(parse_records(read_text(out)).at(0).id == parse_records(before).at(0).id);
  }

  TEST_CASE("--retry-failed may change what --retry failed may") {
    const TemporaryFolder folder;
    const std::string late = (folder.path() / "late.mp4").string();
    write_text(late, "no film");
    const std::vector<std::vector<std::string>> kRetries = {{"--retry-failed"},
                                                            {"--retry", "failed"}};
    for (const std::vector<std::string>& retry : kRetries) {
      const std::string out = (folder.path() / (retry.back() + ".jsonl")).string();
      CHECK(run_cli({"run", "-q", "-o", out, late}).exit_code == 1);
      std::vector<std::string> again = {"run", "-q", "-o", out, late, "--max-new-tokens", "7"};
      CHECK(run_cli(again).exit_code == 2);
      again.insert(again.end(), retry.begin(), retry.end());
      CHECK(run_cli(again).exit_code == 1);
      again.insert(again.end(), {"--frames", "2"});
      CHECK(run_cli(again).exit_code == 2);
    }
  }

  TEST_CASE("a retry that makes nothing better says so") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::string a = sample_video("city-000-h264.mp4").string();
    CHECK(run_cli({"run", "-o", out, a, "--max-new-tokens", "5"}).exit_code == 0);
    const std::string before = read_text(out);
    const Finished again =
        run_cli({"run", "-o", out, a, "--max-new-tokens", "5", "--retry", "truncated"});
    CHECK(again.exit_code == 0);
    CHECK(again.err.find("run: 1 clip tried again, none came out better in ") != std::string::npos);
    CHECK(again.err.find("nothing to caption") == std::string::npos);
    CHECK(read_text(out) == before);
  }

  TEST_CASE("another configuration on the same output is refused and named") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::string a = sample_video("city-000-h264.mp4").string();
    run_cli({"run", "-o", out, a});
    const std::string before = read_text(out);
    const Finished other = run_cli({"run", "-o", out, a, "--max-new-tokens", "9"});
    CHECK(other.exit_code == 2);
    CHECK(other.err.find("generation.max_new_tokens is \"128\" there and \"9\" now") !=
          std::string::npos);
    CHECK(read_text(out) == before);
    const Finished tier = run_cli({"run", "-o", out, a, "--cpu-tier", "reference"});
    CHECK(tier.exit_code == 2);
    CHECK(tier.err.find("\"cpu reference\" now") != std::string::npos);
    CHECK(read_text(out) == before);
    CHECK(run_cli({"run", "-o", out, a, "--threads", "1"}).exit_code == 0);
    CHECK(run_cli({"run", "-o", out, a, "--max-new-tokens", "9", "--overwrite"}).exit_code == 0);
  }

  TEST_CASE("options without effect, and auto by its value, are the same configuration") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::string a = sample_video("city-000-h264.mp4").string();
    const std::string b = sample_video("bridge-006-h264.mp4").string();
    CHECK(run_cli({"run", "-o", out, a, "--kv-dtype", "auto", "--seed", "7"}).exit_code == 0);
    const std::string manifest = read_text(out + ".manifest.json");
    CHECK(manifest.find("\"quantization.kv_cache\": \"bf16\"") != std::string::npos);
    CHECK(manifest.find("generation.seed") == std::string::npos);
    const Finished again = run_cli({"run", "-o", out, a, b, "--kv-dtype", "bf16", "--seed", "8",
                                    "--attention-threshold", "0.5", "--color-matrix", "bt601"});
    CAPTURE(again.err);
    CHECK(again.exit_code == 0);
    CHECK(again.err.find("--seed has no effect at --temperature 0") != std::string::npos);
    CHECK(again.err.find(": goes on with the 1 record that it has\n") != std::string::npos);
    CHECK(again.err.find(": resumed; 1 of 2 clips is in it\n") != std::string::npos);
    CHECK(read_text(out + ".manifest.json") == manifest);
    // Where it has an effect it still counts, and only what takes it away is named.
    const Finished warm = run_cli({"run", "-o", out, a, "--temperature", "0.5", "--seed", "8"});
    CHECK(warm.exit_code == 2);
    CHECK(warm.err.find("configuration: generation.temperature is \"0\" there and \"0.5\" now; "
                        "give another -o") != std::string::npos);
  }

  TEST_CASE("an --overwrite that goes on says where its records are") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::string a = sample_video("city-000-h264.mp4").string();
    const std::string b = sample_video("bridge-006-h264.mp4").string();
    const std::string fifo = (folder.path() / "fifo.mp4").string();
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    CHECK(run_cli({"run", "-q", "-o", out, a}).exit_code == 0);
    // A clip that cannot be read leaves the records beside the old file.
    CHECK(run_cli({"run", "-q", "-o", out, a, fifo, "--overwrite"}).exit_code == 1);
    const Finished again = run_cli({"run", "-o", out, a, b, "--overwrite"});
    CAPTURE(again.err);
    CHECK(again.exit_code == 0);
    CHECK(again.err.find(out + ": the interrupted --overwrite went on; 1 of 2 clips was in ") !=
          std::string::npos);
    CHECK(again.err.find("c.jsonl.new\n") != std::string::npos);
    CHECK(again.err.find(out + ": replaced by the records of this run\n") != std::string::npos);
    CHECK(again.err.find("resumed; ") == std::string::npos);
    CHECK(parse_records(read_text(out)).size() == 2);
  }

  TEST_CASE("an --overwrite whose film is broken says what ends it, and a mended film does") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    const fs::path film = folder.path() / "film.mp4";
    const std::string other = sample_video("bridge-006-h264.mp4").string();
    fs::copy_file(sample_video("city-000-h264.mp4"), film);
    CHECK(run_cli({"run", "-q", "-o", out, film.string(), other}).exit_code == 0);
    const std::string before = read_text(out);
    write_text(film.string(), "no film");
    CHECK(run_cli({"run", "-q", "-o", out, film.string(), other, "--overwrite"}).exit_code == 1);
    const Finished again = run_cli({"run", "-q", "-o", out, film.string(), other, "--overwrite"});
    CHECK(again.exit_code == 1);
    CHECK(again.err.find("1 of them failed (while " + out +
                         " holds a caption of one, it stays: ") != std::string::npos);
    CHECK(read_text(out) == before);
    fs::remove(film);
    fs::copy_file(sample_video("city-000-h264.mp4"), film);
    CHECK(run_cli({"run", "-q", "-o", out, film.string(), other, "--overwrite"}).exit_code == 0);
    CHECK(parse_records(read_text(out)).size() == 2);
    CHECK_FALSE(fs::exists(out + ".new"));
  }

  TEST_CASE("an --overwrite that goes on over other clips says which records it drops") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::string a = sample_video("city-000-h264.mp4").string();
    const std::string b = sample_video("bridge-006-h264.mp4").string();
    const std::string fifo = (folder.path() / "fifo.mp4").string();
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    CHECK(run_cli({"run", "-q", "-o", out, a}).exit_code == 0);
    struct Row {
      std::vector<std::string>
          before;  // with `fifo`, whose failure leaves the records beside `out`
      std::vector<std::string> now;
      const char* dropped;  // nullptr: nothing is said
    };
    for (const Row& row : {Row{{a, b, fifo},
                               {b},
                               "2 records of clips or prompts that this run "
                               "does not name, from the --overwrite that was "
                               "interrupted, are dropped\n"},
                           Row{{a, fifo},
                               {a, b},
                               "1 record of clips or prompts that this run "
                               "does not name, from the --overwrite that was "
                               "interrupted, is dropped\n"},
                           Row{{a, b}, {b}, nullptr}}) {
      CAPTURE(row.now);
      const auto run = [&](const std::vector<std::string>& clips) {
        std::vector<std::string> command = {"run", "-o", out, "--overwrite"};
        command.insert(command.end(), clips.begin(), clips.end());
        return run_cli(command);
      };
      CHECK(run(row.before).exit_code == (row.before.back() == fifo ? 1 : 0));
      const Finished again = run(row.now);
      CAPTURE(again.err);
      CHECK(again.exit_code == 0);
      if (row.dropped == nullptr) {
        CHECK_FALSE(contains(again.err, "dropped"));
      } else {
        CHECK(contains(again.err, "warning: records: " + out + ".new: " + row.dropped));
      }
      CHECK(parse_records(read_text(out)).size() == row.now.size());
    }
  }

  TEST_CASE("a name whose suffix is no format is told which format is written") {
    const TemporaryFolder folder;
    const std::string a = sample_video("city-000-h264.mp4").string();
    struct Row {
      const char* name;
      const char* suffix;  // nullptr: nothing is said
      const char* format = "";
    };
    for (const Row& row : {Row{"c.xyz", ".xyz"}, Row{"c.jsonl.bak", ".bak"}, Row{"c", nullptr},
                           Row{"d.xyz", nullptr, "csv"}, Row{"c.NDJSON", nullptr}}) {
      CAPTURE(std::string(row.name));
      const std::string out = (folder.path() / row.name).string();
      std::vector<std::string> command = {"run", "-o", out, a};
      if (*row.format != '\0') command.insert(command.end(), {"--format", row.format});
      const Finished finished = run_cli(command);
      CHECK(finished.exit_code == 0);
      const std::string said =
          row.suffix == nullptr
              ? std::string()
              : "run: -o " + out + ": records are written as jsonl, because " + row.suffix +
                    " is no format; --format, or a name in .jsonl, .csv or .txt, chooses one\n";
      CHECK((finished.err.find(": records are written as ") != std::string::npos) == !said.empty());
      CHECK(finished.err.find(said) != std::string::npos);
    }
  }

  TEST_CASE("records of another arithmetic are refused by its name, whatever version wrote them") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::vector<std::string> command = {
        "run", "-o", out, "--frames", "2", sample_video("city-000-h264.mp4").string()};
    CHECK(run_cli(command).exit_code == 0);
    const std::string before = read_text(out);
    std::string manifest = read_text(out + ".manifest.json");
    CHECK(manifest.find("\"version\"") == std::string::npos);
    const std::size_t revision = manifest.find("\"arithmetic.revision\": \"");
    REQUIRE(revision != std::string::npos);
    manifest.replace(manifest.find(": \"", revision) + 3, 16, "0123456789abcdef");
    write_text(out + ".manifest.json", manifest);
    const Finished refused = run_cli(command);
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find("arithmetic.revision is \"0123456789abcdef\" there") !=
          std::string::npos);
    CHECK(read_text(out) == before);
  }

  TEST_CASE("Ctrl-C, SIGTERM and SIGHUP keep what is done, say so, and the same command finishes") {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      CAPTURE(signal);
      const TemporaryFolder folder;
      fill(folder.path() / "in", 40);
      const fs::path out = folder.path() / "c.jsonl";
      const std::vector<std::string> command = {"run",      "-o", out.string(),
                                                "--frames", "2",  (folder.path() / "in").string()};
      const pid_t child = start_cli(command, folder.path() / "err");
      wait_for_lines(out, 3);
      ::kill(child, signal);
      CHECK(wait_for(child) == 130);
      const std::size_t num_done = captions_of(out).size();
      CHECK(num_done >= 3);
      CHECK(num_done < 40);
      CHECK(read_text(folder.path() / "err").find("the same command continues") !=
            std::string::npos);
      CHECK(run_cli(command).exit_code == 0);
      CHECK(captions_of(out).size() == 40);
    }
  }

  TEST_CASE("a SIGHUP that is ignored at the start, as under nohup, stops nothing") {
    const TemporaryFolder folder;
    constexpr int kNumClips = 40;
    fill(folder.path() / "in", kNumClips);
    const fs::path out = folder.path() / "c.jsonl";
    const auto before = std::signal(SIGHUP, SIG_IGN);  // the child inherits it
    const pid_t child =
        start_cli({"run", "-o", out.string(), "--frames", "2", (folder.path() / "in").string()},
                  folder.path() / "err");
    std::signal(SIGHUP, before);
    wait_for_lines(out, 3);
    ::kill(child, SIGHUP);
    CHECK(wait_for(child) == 0);
    CHECK(captions_of(out).size() == kNumClips);
  }

  TEST_CASE("kill -9 at random instants loses nothing, repeats nothing, tears nothing") {
    const TemporaryFolder folder;
    constexpr int kNumClips = 32;
    fill(folder.path() / "in", kNumClips);
    const fs::path out = folder.path() / "c.jsonl";
    const std::vector<std::string> command = {"run",      "-o", out.string(),
                                              "--frames", "2",  (folder.path() / "in").string()};
    std::mt19937 random(20);
    std::size_t num_before = 0;
    for (int round = 0; round < 6; ++round) {
      const pid_t child = start_cli(command, folder.path() / "err");
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
      ::kill(child, SIGKILL);
      wait_for(child);
      if (!fs::exists(out)) continue;
      const std::size_t num_lines = lines_of(out);
      CHECK(num_lines >= num_before);
      num_before = num_lines;
    }
    CHECK(run_cli(command).exit_code == 0);
    const auto captions = captions_of(out);
    CHECK(captions.size() == kNumClips);
    const fs::path whole = folder.path() / "whole.jsonl";
    CHECK(run_cli({"run", "-o", whole.string(), "--frames", "2", (folder.path() / "in").string()})
              .exit_code == 0);
    CHECK(captions == captions_of(whole));
  }
}

}  // namespace
}  // namespace caption::test
