// The example in the message for a missing value is one that the command accepts as it stands.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/app/folders.h"
#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;

// The long names of the options with a value that --help lists.
std::vector<std::string> options_of(const std::string& command) {
  const std::string help = run_cli({command, "--help"}).out;
  const std::regex line("\n +(?:-\\w, )? *(--[a-z0-9-]+) \\S");
  std::vector<std::string> names;
  for (std::sregex_iterator found(help.begin(), help.end(), line), end; found != end; ++found) {
    names.push_back((*found)[1]);
  }
  return names;
}

// The words of the example as the shell splits them.
std::vector<std::string> example_of(const std::string& command, const std::string& option) {
  const std::string err = run_cli({command, option}).err;
  const std::string begin = ", for example: ";
  const std::size_t found = err.find(begin);
  if (found == std::string::npos) return {};
  std::vector<std::string> words(1);
  bool is_quoted = false;
  for (const char c : err.substr(found + begin.size())) {
    if (c == '\'') {
      is_quoted = !is_quoted;
    } else if (!is_quoted && (c == ' ' || c == '\n')) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  words.pop_back();  // behind the line
  return words;
}

// A folder with the files that examples name.
class Folder {
 public:
  Folder() {
    write_text(folder_.path() / "prompts.txt", "short\t짧게\n");
    write_text(folder_.path() / "examples.jsonl", "{\"caption\": \"산\"}\n");
    write_text(folder_.path() / "earlier.jsonl", "{\"video\": \"a.mp4\", \"caption\": \"산\"}\n");
    fs::copy_file(sample_video("city-000-h264.mp4"), folder_.path() / "a.mp4");
  }
  Finished run(std::vector<std::string> command, const std::vector<std::string>& example) const {
    command.insert(command.end(), example.begin(), example.end());
    return run_cli_in({.folder = folder_.path()}, command);
  }

 private:
  TemporaryFolder folder_;
};

TEST_SUITE("app/option_examples") {
  TEST_CASE("every example of run is accepted as it stands") {
    const Folder folder;
    int num_examples = 0;
    for (const std::string& option : options_of("run")) {
      const std::vector<std::string> example = example_of("run", option);
      REQUIRE_FALSE(example.empty());
      ++num_examples;
      CAPTURE(example);
      const Finished finished = folder.run({"run", "a.mp4", "--dry-run"}, example);
      CAPTURE(finished.err);
      if (option == "--adapter") {  // there is no adapter for every model
        CHECK(contains(finished.err, "lora"));
      } else {
        CHECK(finished.exit_code == 0);
      }
    }
    CHECK(num_examples >= 45);
  }

  TEST_CASE("every example of the other commands is a value that the option takes") {
    const Folder folder;
    const std::vector<std::string> of_run = options_of("run");
    // Each command up to an input that is not there.
    const std::vector<std::vector<std::string>> commands = {{"plan", "--model", "gone/x"},
                                                            {"bench", "--model", "gone/x"},
                                                            {"eval", "gone.jsonl"},
                                                            {"quantize", "gone/x"},
                                                            {"inspect", "gone.mp4"},
                                                            {"doctor"},
                                                            {"presets"}};
    for (const std::vector<std::string>& command : commands) {
      for (const std::string& option : options_of(command.front())) {
        // Those of `run`, above; an option whose value may be left out.
        const bool is_of_run = std::find(of_run.begin(), of_run.end(), option) != of_run.end();
        const bool has_presets = command.front() == "plan" || command.front() == "bench";
        if ((has_presets && is_of_run) || option == "--check") continue;
        const std::vector<std::string> example = example_of(command.front(), option);
        CAPTURE(command.front());
        CAPTURE(example);
        REQUIRE_FALSE(example.empty());
        const Finished finished = folder.run(command, example);
        CAPTURE(finished.err);
        for (const char* refusal : {"expected ", "needs a value", "is none of", "is no size",
                                    "no metric", "no card", "is not known", "give the numbers"}) {
          CHECK_FALSE(contains(finished.err, refusal));
        }
      }
    }
  }

  TEST_CASE("the examples of what plan assumes make a plan") {
    const Folder folder;
    for (const char* option : {"--card", "--bandwidth", "--flops", "--memory", "--batch", "--svg",
                               "--frame-size", "--prompt-tokens", "--output-tokens"}) {
      const std::vector<std::string> example = example_of("plan", option);
      CAPTURE(example);
      const bool is_rate = std::string(option) == "--flops" || std::string(option) == "--bandwidth";
      std::vector<std::string> command = {"plan"};
      if (!is_rate) command.insert(command.end(), {"--flops", "500", "--bandwidth", "50"});
      const Finished planned = folder.run(command, example);
      CAPTURE(planned.err);
      CHECK_FALSE(planned.out.empty());
      CHECK_FALSE(contains(planned.err, "error"));
    }
  }
}

}  // namespace
}  // namespace caption::test
