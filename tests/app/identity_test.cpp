// A caption is assigned to the right clip whatever the names and locations of files, and even if
// files are replaced during a run.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

// Returns a command with little work per clip, for tests of names and ids rather than captions.
std::vector<std::string> run_command(const fs::path& out, std::vector<std::string> rest) {
  std::vector<std::string> command = {"run", "-o", out.string(),       "--frames",
                                      "2",   "-q", "--max-new-tokens", "24"};
  command.insert(command.end(), rest.begin(), rest.end());
  return command;
}

// Runs the same command without -q, so that its summary is on stderr.
Finished run_aloud(const fs::path& out, std::vector<std::string> rest) {
  std::vector<std::string> command = run_command(out, std::move(rest));
  std::erase(command, "-q");
  return run_cli(command);
}

std::vector<fs::path> some_samples() {
  const std::vector<fs::path> all = small_videos();
  return {all.at(0), all.at(1), all.at(2), all.at(3)};
}

// Captions of undisturbed runs, by content id.
const std::map<std::string, std::string>& expected() {
  static const std::map<std::string, std::string> captions = [] {
    const TemporaryFolder folder;
    std::vector<std::string> paths;
    for (const fs::path& sample : some_samples()) paths.push_back(sample.string());
    REQUIRE(run_cli(run_command(folder.path() / "c.jsonl", paths)).exit_code == 0);
    std::map<std::string, std::string> made;
    for (const auto& record : parse_records(read_text(folder.path() / "c.jsonl"))) {
      made[record.id] = record.caption;
    }
    REQUIRE(made.size() == paths.size());
    return made;
  }();
  return captions;
}

std::vector<records::Record> records_of(const fs::path& out) {
  std::vector<records::Record> records = parse_records(read_text(out));
  for (const records::Record& record : records) {
    CAPTURE(record.video);
    REQUIRE(expected().contains(record.id));
    CHECK(record.caption == expected().at(record.id));
  }
  return records;
}

// Maps each name in the output to its id, and checks that every name occurs once.
std::map<std::string, std::string> ids_of(const fs::path& out) {
  std::map<std::string, std::string> ids;
  for (const records::Record& record : records_of(out)) {
    CHECK(ids.emplace(record.video, record.id).second);
  }
  return ids;
}

TEST_SUITE("app/identity") {
  TEST_CASE("a file replaced under its name is captioned, with its time put back or not") {
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "c.jsonl";
    const fs::path film = folder.path() / "film.mp4";
    fs::copy_file(some_samples()[0], film);
    const auto time = fs::last_write_time(film);
    CHECK(run_cli(run_command(out, {film.string()})).exit_code == 0);
    const auto before = ids_of(out);
    fs::copy_file(some_samples()[1], film, fs::copy_options::overwrite_existing);
    fs::last_write_time(film, time);
    CHECK(run_cli(run_command(out, {film.string()})).exit_code == 0);
    const auto after = ids_of(out);
    REQUIRE(after.size() == 1);
    CHECK(before != after);
  }

  TEST_CASE("a link that is turned to another film is captioned anew") {
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "c.jsonl";
    const fs::path link = folder.path() / "link.mp4";
    std::vector<std::string> ids;
    for (std::size_t i = 0; i < 2; ++i) {
      fs::remove(link);
      fs::create_symlink(some_samples()[i], link);
      CHECK(run_cli(run_command(out, {link.string()})).exit_code == 0);
      ids.push_back(ids_of(out).at(link.string()));
    }
    CHECK(ids[0] != ids[1]);
  }

  TEST_CASE("films of one name in several folders each have their record") {
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "c.jsonl";
    for (std::size_t i = 0; i < 2; ++i) {
      const fs::path place = folder.path() / std::to_string(i);
      fs::create_directory(place);
      fs::copy_file(some_samples()[i], place / "film.mp4");
      CHECK(run_cli_in({.folder = place}, run_command(out, {"film.mp4"})).exit_code == 0);
    }
    const std::vector<records::Record> records = records_of(out);
    REQUIRE(records.size() == 2);
    CHECK(records[0].video == records[1].video);
    CHECK(records[0].id != records[1].id);
  }

  TEST_CASE("names that lead to different files through a link are different files") {
    const TemporaryFolder folder;
    fs::create_directories(folder.path() / "x");
    fs::create_directories(folder.path() / "elsewhere/deep");
    fs::create_directory_symlink("../elsewhere/deep", folder.path() / "x/link");
    fs::copy_file(some_samples()[0], folder.path() / "x/v.mp4");
    fs::copy_file(some_samples()[1], folder.path() / "elsewhere/v.mp4");
    const fs::path out = folder.path() / "c.jsonl";
    CHECK(run_cli_in({.folder = folder.path()}, run_command(out, {"x/v.mp4", "x/link/../v.mp4"}))
              .exit_code == 0);
    const auto ids = ids_of(out);
    REQUIRE(ids.size() == 2);
    CHECK(ids.at("x/v.mp4") != ids.at("x/link/../v.mp4"));
  }

  TEST_CASE("a moved folder is recognised, and nothing is captioned again") {
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "c.jsonl";
    fs::create_directory(folder.path() / "before");
    for (const fs::path& sample : some_samples()) {
      fs::copy_file(sample, folder.path() / "before" / sample.filename());
    }
    CHECK(run_cli(run_command(out, {(folder.path() / "before").string()})).exit_code == 0);
    fs::rename(folder.path() / "before", folder.path() / "after");
    const Finished moved = run_aloud(out, {(folder.path() / "after").string()});
    CHECK(moved.exit_code == 0);
    CHECK(moved.err.find("4 records were carried over") != std::string::npos);
    CHECK(moved.err.find("nothing to caption") != std::string::npos);
    const auto ids = ids_of(out);
    CHECK(ids.size() == 4);
    CHECK(ids.contains((folder.path() / "after" / some_samples()[0].filename()).string()));
    // Relative names refer to the same files.
    const Finished relative =
        run_cli_in({.folder = folder.path()}, run_command(out, {"after", "./after/"}));
    CHECK(relative.exit_code == 0);
    CHECK(ids_of(out) == ids);
  }

  TEST_CASE("a film whose place another film took is recognised where it lies now") {
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "c.jsonl";
    const fs::path place = folder.path() / "a.mp4";
    const fs::path moved = folder.path() / "moved.mp4";
    fs::copy_file(some_samples()[0], place);
    CHECK(run_cli(run_command(out, {place.string()})).exit_code == 0);
    const std::string id = ids_of(out).at(place.string());
    fs::rename(place, moved);
    fs::copy_file(some_samples()[1], place);
    CHECK(run_cli(run_command(out, {place.string()})).exit_code == 0);
    const Finished again = run_aloud(out, {place.string(), moved.string()});
    CHECK(again.exit_code == 0);
    CHECK(again.err.find("1 record was carried over") != std::string::npos);
    CHECK(again.err.find("nothing to caption") != std::string::npos);
    const auto ids = ids_of(out);
    REQUIRE(ids.size() == 2);
    CHECK(ids.at(moved.string()) == id);
    CHECK(ids.at(place.string()) != id);
    CHECK_FALSE(fs::exists(out.string() + ".replaced"));
  }

  TEST_CASE("a film that is gone keeps its caption, and the run has failed") {
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "c.jsonl";
    const fs::path film = folder.path() / "a.mp4";
    fs::copy_file(some_samples()[0], film);
    const std::string list = film.string() + "\n";
    const std::vector<std::string> command = run_command(out, {"-"});
    CHECK(run_cli(command, list).exit_code == 0);
    fs::rename(film, folder.path() / "b.mp4");
    const Finished gone = run_cli(command, list);
    CHECK(gone.exit_code == 1);
    CHECK(parse_records(read_text(out)).size() == 1);
    // Found under its new name, the video keeps its caption.
    const Finished both = run_cli(command, list + (folder.path() / "b.mp4").string() + "\n");
    CHECK(both.exit_code == 1);
    const auto records = parse_records(read_text(out));
    REQUIRE(records.size() == 2);
    CHECK(records[0].video == (folder.path() / "b.mp4").string());
    CHECK(records[0].status != records::Status::kFailed);
    CHECK(records[1].error->code == "not_found");
  }

  TEST_CASE("equal files are captioned once and recorded under each name") {
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "c.jsonl";
    const fs::path a = folder.path() / "a.mp4";
    const fs::path b = folder.path() / "b.mp4";
    const fs::path c = folder.path() / "c.mp4";
    fs::copy_file(some_samples()[0], a);
    fs::copy_file(some_samples()[0], b);
    fs::create_hard_link(a, c);
    const Finished both = run_aloud(out, {a.string(), b.string()});
    CHECK(both.exit_code == 0);
    CHECK(both.err.find("1 record is that of another clip of the same content") !=
          std::string::npos);
    CHECK(run_cli(run_command(out, {a.string(), b.string(), c.string()})).exit_code == 0);
    CHECK(ids_of(out).size() == 3);
    int num_own = 0;
    for (const records::Record& record : records_of(out)) num_own += record.copy_of.empty() ? 1 : 0;
    CHECK(num_own == 1);
    const Finished streamed = run_cli({"run", a.string(), b.string()});
    CHECK(streamed.exit_code == 0);
    CHECK(streamed.err.find("1 record is that of another clip") != std::string::npos);
  }

  TEST_CASE("--trust-times reads no clip whole and goes by size and time") {
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "c.jsonl";
    const fs::path film = folder.path() / "film.mp4";
    fs::copy_file(some_samples()[0], film);
    CHECK(run_cli(run_command(out, {"--trust-times", film.string()})).exit_code == 0);
    const std::string before = read_text(out);
    CHECK(parse_records(before).at(0).id == "");
    CHECK(run_cli(run_command(out, {"--trust-times", film.string()})).exit_code == 0);
    CHECK(read_text(out) == before);
    fs::last_write_time(film, fs::last_write_time(film) + std::chrono::seconds(1));
    CHECK(run_cli(run_command(out, {"--trust-times", film.string()})).exit_code == 0);
    CHECK(read_text(out) != before);
    CHECK(parse_records(read_text(out)).size() == 1);
  }

  TEST_CASE("a run that another CPU tier began is refused with the way to continue it") {
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "c.jsonl";
    const std::string film = some_samples()[0].string();
    CHECK(run_cli(run_command(out, {"--cpu-tier", "reference", film})).exit_code == 0);
    const Finished refused = run_cli(run_command(out, {film}));
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find("\"cpu reference\" there and") != std::string::npos);
    CHECK(refused.err.find("; --cpu-tier reference continues it") != std::string::npos);
    const Finished other = run_cli(run_command(out, {"--prompt", "다른 말", film}));
    CHECK(other.exit_code == 2);
    CHECK(other.err.find("continues it") == std::string::npos);
    CHECK(run_cli(run_command(out, {"--cpu-tier", "reference", film})).exit_code == 0);
  }

  TEST_CASE("a film is never overwritten by its captions, nor records by a mistyped input") {
    const TemporaryFolder folder;
    const fs::path film = folder.path() / "a.mp4";
    fs::copy_file(some_samples()[0], film);
    const std::vector<char> bytes = read_bytes(film);
    for (const char* overwrite : {"", "--overwrite"}) {
      std::vector<std::string> rest = {film.string()};
      if (*overwrite != '\0') rest.emplace_back(overwrite);
      const Finished refused = run_cli(run_command(film, rest));
      CHECK(refused.exit_code == 2);
      CHECK(read_bytes(film) == bytes);
      const Finished other =
          run_cli(run_command(film, {some_samples()[1].string(), "--overwrite"}));
      CHECK(other.exit_code == 2);
      CHECK(read_bytes(film) == bytes);
    }
    const fs::path out = folder.path() / "c.jsonl";
    CHECK(run_cli(run_command(out, {film.string()})).exit_code == 0);
    const std::string before = read_text(out);
    CHECK(run_cli(run_command(out, {"--overwrite", film.string() + "x"})).exit_code == 2);
    const fs::path text = folder.path() / "notes.mp4";
    write_text(text, "no film");
    const Finished failed = run_cli(run_command(out, {"--overwrite", text.string()}));
    CHECK(failed.exit_code == 1);
    CHECK(failed.err.find("stays as it was, because not one clip was captioned") !=
          std::string::npos);
    CHECK(read_text(out) == before);
    const Finished partly = run_cli(run_command(out, {"--overwrite", "-"}),
                                    film.string() + "\n" + film.string() + "x\n");
    CHECK(partly.exit_code == 1);
    CHECK(partly.err.find("stays as it was, because not every clip could be read") !=
          std::string::npos);
    CHECK(read_text(out) == before);
    CHECK(run_cli(run_command(out, {"--overwrite", film.string()})).exit_code == 0);
    CHECK(records_of(out).size() == 1);
  }

  TEST_CASE("an output that is deleted while it is written is said, with exit 5") {
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "c.jsonl";
    std::vector<std::string> rest;
    for (const fs::path& sample : sample_videos()) rest.push_back(sample.string());
    const pid_t child = start_cli(run_command(out, rest), folder.path() / "err");
    while (!fs::exists(out) || fs::file_size(out) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    fs::remove(out);
    CHECK(wait_for(child) == 5);
    CHECK(read_text(folder.path() / "err").find("was deleted") != std::string::npos);
  }

  TEST_CASE(
      "films that change places while two runs fill one cache never get each other's caption") {
    const TemporaryFolder folder;
    const fs::path films = folder.path() / "films";
    const fs::path cache = folder.path() / "cache";
    fs::create_directory(films);
    std::vector<fs::path> names;
    for (const fs::path& sample : some_samples()) {
      fs::copy_file(sample, folder.path() / sample.filename());
      names.push_back(films / ("link" + std::to_string(names.size()) + ".mp4"));
      fs::create_symlink(folder.path() / sample.filename(), names.back());
    }
    const std::vector<fs::path> samples = some_samples();
    expected();
    std::atomic<bool> is_done{false};
    int num_swaps = 0;
    std::thread swapper([&] {
      // Each name in turn is replaced by a new link to, or a copy of, each of the videos.
      for (std::size_t i = 0; !is_done.load() || num_swaps < 1000; ++i, ++num_swaps) {
        const fs::path& sample = samples[i * 7 % 4];
        const fs::path next = folder.path() / "next";
        fs::remove(next);
        if (i % 3 == 0) {
          fs::copy_file(sample, next);
        } else {
          fs::create_symlink(folder.path() / sample.filename(), next);
        }
        fs::rename(next, names[i % 4]);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    int num_records = 0;
    for (int round = 0; round < 6; ++round) {
      std::vector<pid_t> children;
      std::vector<fs::path> outs;
      for (int i = 0; i < 2; ++i) {
        outs.push_back(folder.path() / (std::to_string(2 * round + i) + ".jsonl"));
        children.push_back(start_cli(
            run_command(outs.back(),
                        {"--prefix-cache", "on", "--kv-cache-dir", cache.string(), films.string()}),
            folder.path() / ("err" + std::to_string(i))));
      }
      for (const pid_t child : children) CHECK(wait_for(child) <= 1);
      for (const fs::path& out : outs) {
        for (const auto& record : parse_records(read_text(out))) {
          if (record.status == records::Status::kFailed) {
            CHECK(record.error->code == "changed");
            continue;
          }
          ++num_records;
          CHECK(record.caption == expected().at(record.id));
        }
      }
    }
    is_done.store(true);
    swapper.join();
    CHECK(num_swaps >= 1000);
    CHECK(num_records >= 12);
    const std::string figures =
        std::to_string(num_swaps) + " swaps, " + std::to_string(num_records) + " captions";
    MESSAGE(figures);
    const fs::path out = folder.path() / "last.jsonl";
    CHECK(run_cli(run_command(out, {"--prefix-cache", "on", "--kv-cache-dir", cache.string(),
                                    films.string()}))
              .exit_code == 0);
    CHECK(records_of(out).size() == 4);  // the cache holds correct entries
  }
}

}  // namespace
}  // namespace caption::test
