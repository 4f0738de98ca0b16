// Tests --help, --version, and messages about wrong command lines.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/app/process.h"
#include "tests/app/terminal.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Returns the lines below "HEADING:" up to the next empty one.
std::vector<std::string> block_of(const std::string& help, const std::string& heading) {
  std::vector<std::string> out;
  bool is_inside = false;
  for (const std::string& line : lines_of(help)) {
    if (is_inside && line.empty()) break;
    if (is_inside) out.push_back(line);
    is_inside = is_inside || line == heading + ":";
  }
  return out;
}

std::string help_of(const std::string& command, const std::string& columns = "80") {
  const Finished finished = run_cli({command, "--help"}, "", {{"COLUMNS", columns}});
  CHECK(finished.exit_code == 0);
  CHECK(finished.err.empty());
  return finished.out;
}

std::vector<std::string> commands() {
  std::vector<std::string> names;
  for (const std::string& line : block_of(run_cli({"--help"}).out, "Commands")) {
    if (line.size() > 2 && line[2] != ' ') names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  for (const std::string& line : lines_of(text.substr(0, text.find("\nExamples:")))) {
    longest = std::max(longest, line.size());
  }
  return longest;
}

// Returns the text of an option including its wrapped lines, with single spaces.
std::string option_text(const std::string& help, const std::string& name) {
  std::string out;
  bool is_inside = false;
  for (const std::string& line : lines_of(help)) {
    const bool is_new = line.size() > 2 && line.find_first_not_of(' ') < 7;
    if (is_inside && (is_new || line.empty())) break;
    is_inside = is_inside || line.find(name + " ") != std::string::npos;
    if (is_inside) out += line + " ";
  }
  std::string squeezed;
  for (const char c : out) {
    if (c != ' ' || (!squeezed.empty() && squeezed.back() != ' ')) squeezed += c;
  }
  return squeezed;
}

TEST_SUITE("app/help") {
  TEST_CASE("the program lists its commands, a line each") {
    const std::vector<std::string> names = commands();
    for (const char* name : {"run", "eval", "plan", "bench", "presets", "inspect", "completion"}) {
      CAPTURE(name);
      CHECK(std::count(names.begin(), names.end(), name) == 1);
    }
    CHECK(std::count(names.begin(), names.end(), "man") == 0);
    const std::string help = run_cli({"--help"}, "", {{"COLUMNS", "80"}}).out;
    CHECK(block_of(help, "Commands").size() == names.size());
    CHECK(help.find("caption-cli COMMAND --help") != std::string::npos);
  }

  TEST_CASE("every command has groups of options, a default where there is one, and examples") {
    for (const std::string& name : commands()) {
      CAPTURE(name);
      const std::string help = help_of(name);
      CHECK(help.find("\n\nUsage: caption-cli " + name + " [options]") != std::string::npos);
      const std::vector<std::string> other = block_of(help, "Other");
      CHECK(std::count_if(other.begin(), other.end(), [](const std::string& line) {
              return line.starts_with("  -h, --help  ");
            }) == 1);
      CHECK(help.find("LIST ...") == std::string::npos);
      CHECK(help.find(" -  ") == std::string::npos);
      CHECK(std::all_of(help.begin(), help.end(), [](char c) { return c >= ' ' || c == '\n'; }));
      for (const std::string& line : lines_of(help)) {
        // Checks that at most 16 options are listed below a heading.
        if (!line.empty() && line[0] != ' ' && line.ends_with(':') && line != "Examples:") {
          const std::vector<std::string> block = block_of(help, line.substr(0, line.size() - 1));
          CHECK(std::count_if(block.begin(), block.end(), [](const std::string& row) {
                  return row.find_first_not_of(' ') < 7;
                }) <= 16);
        }
      }
    }
    const std::string run = help_of("run", "120");
    CHECK(option_text(run, "--frames N") == "--frames N frames taken from each clip [8] ");
    CHECK(option_text(run, "--decode-timeout-s TIME") ==
          "--decode-timeout-s TIME longest time to read one clip [2m] ");
    CHECK(option_text(run, "--kv-cache-dir-bytes SIZE").ends_with("[16GiB] "));
    // The values are those of the preset cpu, not of an empty preset.
    CHECK(option_text(run, "--prefix-cache true|false").ends_with("[true] "));
    CHECK(option_text(run, "--retry LIST") ==
          "--retry LIST make again: failed, truncated, suspicious ");
    CHECK(option_text(run, "-o, --output FILE").starts_with("-o, --output FILE append records"));
    CHECK(option_text(help_of("eval", "120"), "--references PATH").ends_with("(required) "));
  }

  TEST_CASE("defaults are those of the user's own preset cpu, where there is one") {
    const TemporaryFolder folder;
    write_text(folder.path() / "cpu.yaml", "# Mine.\nvideo: {num_frames: 5}\n");
    const std::string help =
        run_cli({"run", "--help"}, "", {{"CAPTION_PRESETS", folder.path().string()}}).out;
    CHECK(option_text(help, "--frames N").find("[5]") != std::string::npos);
    write_text(folder.path() / "cpu.yaml", "broken: [");
    const Finished broken =
        run_cli({"run", "--help"}, "", {{"CAPTION_PRESETS", folder.path().string()}});
    CHECK(broken.exit_code == 0);
    CHECK(option_text(broken.out, "--frames N").find("[8]") != std::string::npos);
  }

  TEST_CASE("lines fit the columns that are there") {
    for (const std::string& name : commands()) {
      for (const std::size_t columns : {60, 80, 100, 200}) {
        CAPTURE(name);
        CAPTURE(columns);
        CHECK(longest_line(help_of(name, std::to_string(columns))) <= columns);
      }
    }
    const auto longest_on_terminal = [](unsigned short columns) {
      // The terminal's width has priority over $COLUMNS.
      const Finished finished = run_on_terminal({"run", "--help"}, columns, {{"COLUMNS", "200"}});
      CHECK(finished.exit_code == 0);
      return longest_line(finished.out);
    };
    CHECK(longest_on_terminal(60) <= 60);
    CHECK(longest_on_terminal(60) > 50);
    CHECK(longest_on_terminal(100) <= 100);
    CHECK(longest_on_terminal(100) > 70);
    for (const char* nonsense : {"", "0", "-5", "wide", "80x"}) {
      CAPTURE(nonsense);
      CHECK(help_of("run", nonsense) == help_of("run", "80"));
    }
    CHECK(help_of("run", "7") == help_of("run", "40"));
  }

  TEST_CASE("an option is one line of 80 columns") {
    for (const std::string& name : {std::string("run"), std::string("plan")}) {
      const std::string help = help_of(name, "80");
      const std::vector<std::string> lines = lines_of(help.substr(0, help.find("\nExamples:")));
      CAPTURE(help);
      CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
              return line.find_first_not_of(' ') != std::string::npos &&
                     line.find_first_not_of(' ') > 6;
            }) <= 1);
    }
  }

  TEST_CASE("run and inspect list the same choices of --sampling, each of which they take") {
    const std::string choices = "arange, linspace, internvl, qwen3-vl, fps=F";
    for (const char* const command : {"run", "inspect"}) {
      CAPTURE(std::string(command));
      const std::string text = option_text(help_of(command, "200"), "--sampling");
      CHECK(text.find(choices) != std::string::npos);
    }
    const std::string video = sample_video("city-000-h264.mp4").string();
    for (const char* const choice : {"linspace", "internvl", "qwen3-vl", "fps=2"}) {
      CAPTURE(std::string(choice));
      CHECK(run_cli({"run", video, "--dry-run", "--sampling", choice}).exit_code == 0);
    }
  }

  TEST_CASE("help is --help") {
    CHECK(run_cli({"help"}).out == run_cli({"--help"}).out);
    for (const std::string& name : commands()) {
      CAPTURE(name);
      const Finished asked = run_cli({"help", name});
      CHECK(asked.exit_code == 0);
      CHECK(asked.out == run_cli({name, "--help"}).out);
    }
  }

  TEST_CASE("the examples use options that are there") {
    for (const std::string& name : commands()) {
      const std::string help = help_of(name);
      const std::vector<std::string> examples = block_of(help, "Examples");
      CAPTURE(name);
      CHECK(examples.size() >= 2);
      CHECK(examples.size() <= 3);
      for (const std::string& example : examples) {
        CAPTURE(example);
        CHECK(example.size() <= 78);  // indented by two spaces
        const std::size_t start = example.find("caption-cli " + name);
        REQUIRE(start != std::string::npos);
        std::istringstream words(example.substr(start));
        for (std::string word; words >> word;) {
          if (word.size() < 2 || word[0] != '-') continue;
          CAPTURE(word);
          CHECK(help.find(" " + word) != std::string::npos);
        }
      }
    }
  }

  TEST_CASE("the version comes with commit, compiler and libraries") {
    const Finished finished = run_cli({"--version"});
    CHECK(finished.exit_code == 0);
    const std::vector<std::string> lines = lines_of(finished.out);
    REQUIRE(lines.size() == 5);
    CHECK(lines[0].starts_with("caption-cli "));
    CHECK(std::count(lines[0].begin(), lines[0].end(), '.') == 2);
    CHECK(lines[1].starts_with("commit: "));
    const std::string commit = lines[1].substr(8, lines[1].find(' ', 8) - 8);
    const bool is_hash = commit.find_first_not_of("0123456789abcdef") == std::string::npos;
    CHECK((commit == "unknown" || (is_hash && commit.size() >= 40)));
    CHECK(lines[2].find("compiler: ") == 0);
    for (const char* library :
         {"libavformat ", "libavcodec ", "libswscale ", "OpenCV ", "OpenSSL ", "xxHash "}) {
      CAPTURE(library);
      CHECK(lines[3].find(library) != std::string::npos);
    }
    CHECK(lines[4].find("SentencePiece ") != std::string::npos);
    CHECK(lines[4].find("yaml-cpp ") != std::string::npos);
  }
}

TEST_SUITE("app/usage_errors") {
  TEST_CASE("names what was meant, what is missing, and how to give it") {
    struct Case {
      std::vector<std::string> arguments;
      const char* message;
    };
    const Case cases[] = {
        {{}, "a command is missing; the commands are run, eval, plan, bench, presets, inspect"},
        {{"rnu", "a.mp4"}, "there is no command \"rnu\"; did you mean run?"},
        {{"evla", "--references", "x", "y"}, "there is no command \"evla\"; did you mean eval?"},
        {{"zzzz"}, "there is no command \"zzzz\"; the commands are run, eval"},
        {{"--verson"}, "there is no option --verson before a command; did you mean --version?"},
        {{"-v"}, "a command is missing"},
        {{"-q", "run", "a.mp4"},
         "-q is an option of run and stands behind it: caption-cli run -q ...\n"},
        {{"--threads", "2", "run", "a.mp4"}, "stands behind it: caption-cli run --threads N ...\n"},
        {{"--frames=2", "run", "a.mp4"}, "stands behind it: caption-cli run --frames N ...\n"},
        {{"--zzz", "run", "a.mp4"}, "run: there is no option --zzz; see caption-cli run --help"},
        {{"help", "rnu"}, "there is no command \"rnu\"; did you mean run?"},
        {{"run", "a.mp4", "--max-tokens", "64"},
         "run: there is no option --max-tokens; did you mean --max-new-tokens?"},
        {{"run", "a.mp4", "--max-tokens=64"},
         "run: there is no option --max-tokens; did you mean --max-new-tokens?"},
        {{"run", "a.mp4", "--zzz"}, "run: there is no option --zzz; see caption-cli run --help"},
        {{"run", "--ouput", "c.jsonl"}, "run: there is no option --ouput; did you mean --output?"},
        {{"eval", "c.jsonl", "--reference", "r.jsonl"},
         "eval: there is no option --reference; did you mean --references?"},
        {{"run"}, "run: VIDEOS is missing; example: caption-cli run -o captions.jsonl videos/"},
        {{"run", "--prefix-cache", "a.mp4"},
         "run: --prefix-cache needs a value (one of true, false), and \"a.mp4\" follows it; for "
         "example: --prefix-cache false\n"},
        {{"run", "--prefix-cache", "on"},
         "run: VIDEOS is missing; example: caption-cli run -o captions.jsonl videos/"},
        {{"eval"}, "eval: CAPTIONS and --references PATH are missing; example: caption-cli eval"},
        {{"eval", "c.jsonl"}, "eval: --references PATH is missing; example: caption-cli eval"},
        {{"completion"}, "completion: SHELL is missing"},
        {{"completion", "csh"}, "expected one of bash, zsh, fish, found \"csh\""},
        {{"run", "a.mp4", "-o"},
         "run: --output needs a value (FILE), for example: --output captions.jsonl"},
        {{"run", "a.mp4", "--temperature"},
         "run: --temperature needs a value (N), for example: --temperature 0"},
        {{"run", "a.mp4", "--kv-cache-dir-bytes"},
         "run: --kv-cache-dir-bytes needs a value (SIZE), for example: --kv-cache-dir-bytes 16GiB"},
        {{"run", "a.mp4", "--dtype"},
         "run: --dtype needs a value (one of auto, f32, bf16, int8, int4, nf4, w8a8, fp8, "
         "w4a8, int4-head4, "
         "w4a8-head4, awq, gptq)"},
        {{"run", "a.mp4", "--adapter", "--max-new-tokens", "5"},
         "run: --adapter needs a value (FOLDER), and the option --max-new-tokens follows it; for "
         "example: --adapter lora/ --max-new-tokens\n"},
        {{"run", "-o", "-q", "a.mp4"},
         "run: --output needs a value (FILE), and the option -q follows it"},
        {{"bench", "--sweep", "1,,2"}, "bench: --sweep \"1,,2\": an item of the list is empty"},
        {{"bench", "--sweep=1,2,"}, "bench: --sweep \"1,2,\": an item of the list is empty"},
        {{"run", "a.mp4", "--retry", ",failed"}, "run: --retry \",failed\": an item of the list"},
        {{"--cpu-tier", "-v", "run", "a.mp4"}, "run: --cpu-tier needs a value (one of reference"},
        {{"run", "a.mp4", "--seed", "1", "--seed", "2"}, "run: --seed is given more than once"},
        {{"run", "a.mp4", "--dtype", "int88"}, "; did you mean int8?"},
        {{"run", "a.mp4", "--kv-cache-bytes", "4X"}, "expected a size such as 4GiB"},
        {{"run", "a.mp4", "--decode-timeout-s", "soon"}, "expected a time such as 90s"},
        {{"run", "a.mp4", "-q", "-v"}, "-q and -v exclude each other"},
        {{"run", "a.mp4", "--quality", "--speed"}, "excludes"},
        {{"plan", "--memory", "24"}, "--memory: expected 1MiB or more, found \"24\"; a plain"},
        {{"plan", "--memory", "much"}, "--memory: expected a size such as 4GiB"},
        {{"plan", "--output-tokens", "0"}, "--output-tokens: expected 1 to 1048576, found \"0\""},
        {{"bench", "--repeat", "some"},
         "--repeat: expected a whole number from 1 to 1000, found \"some\""},
        {{"bench", "--sweep", "1,x"},
         "--sweep: expected a whole number from 1 to 4096, found \"x\""},
        {{"quantize", "m", "-o", "f", "--format", "nf4", "--max-shard-size", "99999999999G"},
         "--max-shard-size: expected less than 8192PiB"},
        {{"bench", "--workload", "prefx"}, "did you mean prefix?"},
        {{"bench", "--shape", "qwen3-0.6"}, "did you mean qwen3-0.6b?"},
        {{"eval", "c", "--references", "r", "--match", "stm"}, "did you mean stem?"},
        {{"eval", "c", "--references", "r", "--metrics", "meteor"}, "no metric is named"},
        {{"eval", "c", "--references", "r", "--metrics", "chrf2,bleu-4,chrf2"},
         "--metrics: chrf2 is named twice"},
        {{"presets", "cpu"}, "presets: nothing takes the argument \"cpu\""},
        {{"--cpu-tier", "avx3", "presets"}, "did you mean avx2?"},
        {{"run", "a.mp4", "--no\nsuch"}, "--no\\x0asuch"},
    };
    for (const Case& c : cases) {
      CAPTURE(c.arguments);
      const Finished finished = run_cli(c.arguments);
      CAPTURE(finished.err);
      CHECK(finished.exit_code == 2);
      CHECK(finished.out.empty());
      CHECK(lines_of(finished.err).size() == 1);
      CHECK(finished.err.starts_with("error: caption-cli: "));
      CHECK(finished.err.find(c.message) != std::string::npos);
    }
  }

  TEST_CASE("an error is coloured on a terminal, unless that is refused") {
    const auto error = [](const Environment& environment) {
      return run_on_terminal({"rnu"}, 200, environment).out;
    };
    CHECK(error({{"TERM", "xterm"}}).starts_with("\033[31merror:\033[0m caption-cli: there is no"));
    CHECK(error({{"TERM", "xterm"}, {"NO_COLOR", "1"}}).starts_with("error: caption-cli: "));
    CHECK(error({{"TERM", "dumb"}}).starts_with("error: caption-cli: "));
    CHECK(error({}).starts_with("error: caption-cli: "));
    CHECK(run_cli({"rnu"}, "", {{"TERM", "xterm"}}).err.starts_with("error: caption-cli: "));
  }
}

TEST_SUITE("app/verbose") {
  TEST_CASE("-v names each clip, -vv its times, and neither changes the records") {
    const std::string video = sample_video("city-000-h264.mp4").string();
    const std::vector<std::string> quick = {"--frames", "2", "--max-new-tokens", "4", video};
    const auto run = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.end(), quick.begin(), quick.end());
      const Finished finished = run_cli(arguments);
      CHECK(finished.exit_code == 0);
      CHECK(parse_records(finished.out).size() == 1);
      return finished.err;
    };
    const std::string clip = "run: " + video + ": truncated, 4 tokens in ";
    const std::string times = "debug: run: " + video + ": decode ";
    const std::string plain = run({"run"});
    CHECK(plain.find(clip) == std::string::npos);
    const std::string once = run({"run", "-v"});
    CHECK(once.find(clip) != std::string::npos);
    CHECK(once.find("config: preset cpu of ") != std::string::npos);
    CHECK(once.find("run: 1 file, 1 prompt\n") != std::string::npos);
    CHECK(once.find(times) == std::string::npos);
    for (const char* twice : {"-vv", "--verbose"}) {
      const std::string text =
          std::string(twice) == "-vv" ? run({"run", "-vv"}) : run({"-v", "run", "--verbose"});
      CAPTURE(text);
      CHECK(text.find(clip) != std::string::npos);
      CHECK(text.find(times) != std::string::npos);
    }
  }

  TEST_CASE("sizes are printed in units") {
    const std::string video = sample_video("city-000-h264.mp4").string();
    const TemporaryFolder folder;
    const std::string sheet = (folder.path() / "sheet.png").string();
    const std::string model = CAPTION_SOURCE_DIR "/samples/demo-model";
    for (const Finished& finished :
         {run_cli({"inspect", "-o", sheet, video}), run_cli({"inspect", "--machine"}),
          run_cli({"inspect", model})}) {
      CAPTURE(finished.out);
      CHECK(finished.exit_code == 0);
      CHECK(finished.out.find(" bytes") == std::string::npos);
      const bool has_unit = finished.out.find(" kB") != std::string::npos ||
                            finished.out.find(" MB") != std::string::npos ||
                            finished.out.find(" GB") != std::string::npos;
      CHECK(has_unit);
    }
  }

  TEST_CASE("sizes and times are taken with units") {
    const std::string video = sample_video("city-000-h264.mp4").string();
    CHECK(run_cli({"run", "-q", "--frames", "2", "--max-new-tokens", "4", "--kv-cache-bytes",
                   "64MiB", "--decode-timeout-s", "1m30s", video})
              .exit_code == 0);
    const std::string planned =
        run_cli({"plan", "--memory", "16GiB", "--bandwidth", "100", "--flops", "1000", "--json"})
            .out;
    CHECK(planned.find("\"memory_bytes\":17179869184") != std::string::npos);
    const std::string shown = run_cli({"presets", "--show", "cpu"}).out;
    CHECK(shown.find("kv_cache_dir_bytes: 16GiB  # ") != std::string::npos);
  }
}

}  // namespace
}  // namespace caption::test
