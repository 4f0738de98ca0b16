// Tests several prompts per clip, and the caches between runs.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

// Captions by video and prompt.
using Captions = std::map<std::pair<std::string, std::string>, std::string>;

Captions captions_of(const std::string& text) {
  Captions captions;
  for (const records::Record& record : parse_records(text)) {
    CHECK(captions.emplace(std::pair(record.video, record.prompt), record.caption).second);
  }
  return captions;
}

std::size_t files_in(const fs::path& folder) {
  std::size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    count += entry.is_regular_file() ? 1 : 0;
  }
  return count;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

const std::string kBrief = "한 문장으로 설명해 주세요.";
const std::string kFull = "이 영상을 자세히 설명해 주세요.";

TEST_SUITE("app/several_prompts") {
  TEST_CASE("a run says which options change nothing") {
    const std::vector<std::string> command = {"run",
                                              sample_video("city-000-h264.mp4").string(),
                                              "--frames",
                                              "2",
                                              "--max-new-tokens",
                                              "2",
                                              "--requantize",
                                              "true",
                                              "--top-p",
                                              "0.5",
                                              "--prompt",
                                              kBrief,
                                              "--prompt",
                                              kBrief};
    const Finished finished = run_cli(command);
    CHECK(finished.exit_code == 0);
    for (const std::string& wanted :
         {std::string("warning: run: --top-p has no effect at --temperature 0\n"),
          std::string("warning: run: --requantize has no effect with this --model and --dtype, "
                      "which round no codes a second time\n"),
          "warning: run: --prompt \"" + kBrief + "\" is given more than once"}) {
      CHECK(count_of(finished.err, wanted) == 1);
    }
    // The values of --speed and of presets are nobody's word for an effect.
    const Finished speed = run_cli({"run", "--quality", command[1], "--max-new-tokens", "2"});
    CHECK(count_of(speed.err, "has no effect") == 0);
  }

  TEST_CASE("comments among the prompts are counted, and a prompt may begin with #") {
    const TemporaryFolder folder;
    const std::string file = (folder.path() / "prompts.txt").string();
    const std::string video = sample_video("city-000-h264.mp4").string();
    write_text(file, "# comment\n#1\tx\n{\"prompt\": \"#태그\"}\n");
    const std::vector<std::string> command = {"run",       video, "--frames",         "2",
                                              "--prompts", file,  "--max-new-tokens", "2"};
    const Finished finished = run_cli(command);
    CHECK(finished.exit_code == 0);
    CHECK(finished.err.find("prompts: " + file + ": 1 prompt and 2 comments (a line that begins") !=
          std::string::npos);
    CHECK(parse_records(finished.out).at(0).prompt == "p1");
    write_text(file, "short\tx\n");
    CHECK(run_cli(command).err.find("comment") == std::string::npos);
  }

  TEST_CASE("every clip answers every prompt as it would answer it alone") {
    const TemporaryFolder folder;
    const std::string prompts = (folder.path() / "prompts.txt").string();
    write_text(prompts, "# two\nbrief\t" + kBrief + "\nfull\t" + kFull + "\n");
    const std::string videos = small_video("").string();
    const Finished both = run_cli({"run", videos, "--prompts", prompts});
    CHECK(both.exit_code == 0);
    CHECK(both.err.find("32 captions written") != std::string::npos);
    const Captions captions = captions_of(both.out);
    CHECK(captions.size() == 2 * sample_videos().size());
    for (const auto& [name, prompt] : {std::pair{"brief", kBrief}, std::pair{"full", kFull}}) {
      const Finished alone =
          run_cli({"run", videos, "-q", "--prompt", prompt, "--prefix-cache", "off"});
      CHECK(alone.out.find("\"prompt\":\"") == std::string::npos);
      for (const auto& [key, caption] : captions_of(alone.out)) {
        CHECK(captions.at({key.first, name}) == caption);
      }
    }
    const Finished flags = run_cli({"run", sample_videos()[0].string(), "-q", "--prompt", kBrief,
                                    "--prompt", kFull, "--format", "txt"});
    CHECK(flags.out.find(" (p1): ") != std::string::npos);
    CHECK(flags.out.find(" (p2): ") != std::string::npos);
  }

  TEST_CASE("a run continues with the captions that are missing") {
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "c.jsonl").string();
    const std::vector<std::string> command = {
        "run", small_video("").string(), "--prompt", kBrief, "--prompt", kFull, "-o", out};
    CHECK(run_cli(command).exit_code == 0);
    const std::string whole = read_text(out);
    // Removes every third record, so that some clips keep one prompt's record and others none.
    std::string kept;
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < whole.size(); ++number) {
      const std::size_t end = whole.find('\n', begin) + 1;
      if (number % 3 != 0) kept += whole.substr(begin, end - begin);
      begin = end;
    }
    write_text(out, kept);
    const Finished again = run_cli(command);
    CHECK(again.exit_code == 0);
    CHECK(again.err.find("21 of 32 captions are in it") != std::string::npos);
    CHECK(read_text(out).starts_with(kept));
    CHECK(captions_of(read_text(out)) == captions_of(whole));
    const Finished other =
        run_cli({"run", small_video("").string(), "--prompt", kBrief, "--prompt", "?", "-o", out});
    CHECK(other.exit_code == 2);
    CHECK(other.err.find("prompt.p2") != std::string::npos);
  }

  TEST_CASE("bad prompts are refused before a model is loaded") {
    const TemporaryFolder folder;
    const std::string file = (folder.path() / "prompts.txt").string();
    const std::string video = sample_videos()[0].string();
    write_text(file, "a\tx\na\ty\n");
    const Finished twice = run_cli({"run", video, "--prompts", file});
    CHECK(twice.exit_code == 2);
    CHECK(twice.err.find("prompts.txt:2: ") != std::string::npos);
    CHECK(run_cli({"run", video, "--prompts", file, "--prompt", "x"}).exit_code == 2);
    CHECK(run_cli({"run", video, "--prompts", "/nowhere/p.txt"}).exit_code != 0);
  }

  TEST_CASE("captions of one prompt are scored, by name") {
    const TemporaryFolder folder;
    const std::string captions = (folder.path() / "c.jsonl").string();
    const std::string references = (folder.path() / "r.jsonl").string();
    write_text(captions,
               "{\"video\":\"a\",\"prompt\":\"p1\",\"caption\":\"바다\"}\n"
               "{\"video\":\"a\",\"prompt\":\"p2\",\"caption\":\"산\"}\n");
    write_text(references, "{\"video\":\"a\",\"caption\":\"산\"}\n");
    const std::vector<std::string> command = {"eval",     captions,    "--references",
                                              references, "--metrics", "bleu-4,chrf2"};
    const Finished unnamed = run_cli(command);
    CHECK(unnamed.exit_code == 2);
    CHECK(unnamed.err.find("\"p1\", \"p2\"") != std::string::npos);
    std::vector<std::string> named = command;
    named.insert(named.end(), {"--prompt", "p2"});
    CHECK(run_cli(named).exit_code == 0);
  }

  TEST_CASE("with a cache folder the next run decodes and encodes nothing, and says the same") {
    const TemporaryFolder folder;
    const std::string cache = (folder.path() / "cache").string();
    const std::string videos = small_video("").string();
    const std::vector<std::string> other = {"run", videos, "--prompt", kBrief};
    const Captions without_cache = captions_of(run_cli(other).out);
    CHECK(run_cli({"run", videos, "--kv-cache-dir", cache}).exit_code == 0);
    std::vector<std::string> cached = other;
    cached.insert(cached.end(), {"--kv-cache-dir", cache});
    const Finished second = run_cli(cached);
    CHECK(captions_of(second.out) == without_cache);
    CHECK(second.err.find("16 clips seen before") != std::string::npos);
    CHECK(second.err.find("decode 0 % vision 0 %") != std::string::npos);
    for (const records::Record& record : parse_records(second.out)) {
      CHECK(record.decode_ms == 0);
      CHECK(record.vision_ms == 0);
    }
    // Damages every file at a different position.
    std::uintmax_t number = 0;
    for (const auto& entry : fs::recursive_directory_iterator(cache)) {
      if (!entry.is_regular_file()) continue;
      std::string bytes = read_text(entry.path());
      bytes[(number++ * 977) % bytes.size()] ^= 0x10;
      write_text(entry.path(), bytes);
    }
    REQUIRE(number > 16);
    const Finished damaged = run_cli(cached);
    CHECK(damaged.exit_code == 0);
    CHECK(captions_of(damaged.out) == without_cache);
    CHECK(damaged.err.find("seen before") == std::string::npos);
    CHECK(count_of(damaged.err, "it is removed and its content computed again") ==
          2);  // one message per kind of cache
    CHECK(captions_of(run_cli(cached).out) == without_cache);
  }

  TEST_CASE("a cache folder keeps to its bytes, and without a prefix cache there is none") {
    const TemporaryFolder folder;
    const std::string cache = (folder.path() / "cache").string();
    const std::string videos = small_video("").string();
    CHECK(run_cli({"run", videos, "--kv-cache-dir", cache, "--kv-cache-dir-bytes", "1048576"})
              .exit_code == 0);
    for (const char* kind : {"pages", "vision"}) {
      std::uintmax_t sum = 0;
      for (const auto& entry : fs::recursive_directory_iterator(fs::path(cache) / kind)) {
        if (entry.is_regular_file()) sum += entry.file_size();
      }
      CHECK(sum > 0);
      CHECK(sum <= 1048576);
    }
    const Finished off = run_cli({"run", videos, "--kv-cache-dir", cache, "--prefix-cache", "off"});
    CHECK(off.exit_code == 2);
    CHECK(off.err.find("--kv-cache-dir needs --prefix-cache true") != std::string::npos);
    write_text(folder.path() / "file", "");
    const Finished no_folder =
        run_cli({"run", videos, "--kv-cache-dir", (folder.path() / "file").string()});
    CHECK(no_folder.exit_code == 5);
    CHECK(files_in(folder.path()) > 0);
  }
}

}  // namespace
}  // namespace caption::test
