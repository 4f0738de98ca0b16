// Tests completions in the shells, and the manual in man(1).
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/app/process.h"
#include "tests/app/terminal.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// Returns bash's completions of the last of these words, in a folder with files; sorted and unique.
class Bash {
 public:
  Bash() {
    write_text(path("completion.bash"), run_cli({"completion", "bash"}).out);
    fs::create_directory(path("work"));
    fs::create_directory(path("work/videos here"));
    write_text(path("work/a b.mp4"), "");
    write_text(path("work/mine.yaml"), "");
    fs::create_directory(path("work/videos here/models"));
    write_text(path("work/videos here/m.gguf"), "");
  }

  std::set<std::string> complete(const Words& words, const std::string& before = "") const {
    std::string script = "set -u\ncd " + shell_quoted(path("work")) + "\n" + before + "\nsource " +
                         shell_quoted(path("completion.bash")) + "\nCOMP_WORDS=(" +
                         shell_quoted(CAPTION_BINARY);
    for (const std::string& word : words) script += " " + shell_quoted(word);
    script += ")\nCOMP_CWORD=" + std::to_string(words.size()) +
              "\n[[ $(complete -p caption-cli) == *' -F _caption_cli '* ]] || exit 9"
              "\n_caption_cli\nfor word in \"${COMPREPLY[@]+\"${COMPREPLY[@]}\"}\"; do "
              "printf '%s\\n' \"$word\"; done\n";
    write_text(path("script.bash"), script);
    const Finished finished =
        run_shell("bash --norc --noprofile " + shell_quoted(path("script.bash")));
    CHECK(finished.exit_code == 0);
    std::istringstream lines(finished.out);
    std::set<std::string> answers;
    for (std::string line; std::getline(lines, line);) answers.insert(line);
    return answers;
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

 private:
  TemporaryFolder folder_;
};

using Answers = std::set<std::string>;

bool contains_all(const Answers& answers, const Words& wanted) {
  return std::all_of(wanted.begin(), wanted.end(),
                     [&](const std::string& word) { return answers.contains(word); });
}

TEST_SUITE("app/completion") {
  TEST_CASE("bash completes commands, options, words, files, folders and presets") {
    const Bash bash;
    CHECK(contains_all(bash.complete({""}), {"run", "eval", "plan", "presets", "completion"}));
    CHECK_FALSE(bash.complete({""}).contains("man"));
    CHECK(bash.complete({"pr"}) == Answers{"presets"});
    CHECK(bash.complete({"run", "--max-n"}) ==
          Answers{"--max-new-tokens", "--max-num-batched-tokens", "--max-num-seqs"});
    CHECK(contains_all(bash.complete({"run", "-"}), {"-o", "--output", "-v", "--help", "-0"}));
    CHECK(contains_all(bash.complete({"--"}), {"--version", "--verbose", "--help"}));
    CHECK_FALSE(bash.complete({"eval", "--"}).contains("--temperature"));
    // Values.
    CHECK(bash.complete({"run", "--dtype", ""}) == Answers{"auto", "awq", "bf16", "f32", "fp8",
                                                           "gptq", "int4", "int4-head4", "int8",
                                                           "nf4", "w4a8", "w4a8-head4", "w8a8"});
    CHECK(bash.complete({"run", "--dtype", "="}) == bash.complete({"run", "--dtype", ""}));
    CHECK(bash.complete({"run", "--dtype", "=", "int"}) == Answers{"int4", "int4-head4", "int8"});
    CHECK(bash.complete({"run", "--prefix-cache", "t"}) == Answers{"true"});
    CHECK(bash.complete({"run", "--sampling", "f"}) == Answers{"fps="});
    CHECK(bash.complete({"--cpu-tier", "av"}) == Answers{"avx2", "avx512", "avx512bf16"});
    CHECK(bash.complete({"run", "--cpu-tier", "am"}) == Answers{"amx"});
    CHECK(bash.complete({"run", "--retry", "failed,s"}) == Answers{"failed,suspicious"});
    CHECK(bash.complete({"run", "--retry", "failed,"}) ==
          Answers{"failed,suspicious", "failed,truncated"});
    CHECK(bash.complete({"run", "--threads", ""}).empty());
    CHECK(bash.complete({"plan", "--card", "h"}) == Answers{"h100", "h200"});
    CHECK(bash.complete({"completion", "z"}) == Answers{"zsh"});
    // Files, folders and presets: a name with a space is one completion.
    CHECK(bash.complete({"run", ""}) == Answers{"a b.mp4", "mine.yaml", "videos here"});
    CHECK(bash.complete({"run", "-o", "a"}) == Answers{"a b.mp4"});
    CHECK(bash.complete({"run", "--output", "=", "a"}) == Answers{"a b.mp4"});
    CHECK(bash.complete({"run", "--kv-cache-dir", ""}) == Answers{"videos here"});
    CHECK(bash.complete({"quantize", "--group-size", ""}) == Answers{"32", "64", "128"});
    CHECK(bash.complete({"run", "--model", "videos here/m"}) ==
          Answers{"videos here/m.gguf", "videos here/models"});
    for (const Words& words :
         {Words{"run", "--adapter", "v"}, Words{"run", "--adapter", "=", "v"},
          Words{"run", "--adapter", "news", "=", "v"}, Words{"run", "--adapter", "news", "="},
          Words{"run", "--adapter", "=", "news", "=", "v"},
          Words{"run", "--adapter", "=", "news", "="}}) {
      CAPTURE(words);
      CHECK(bash.complete(words) == Answers{"videos here"});
    }
    CHECK(contains_all(bash.complete({"run", "--preset", ""}),
                       {"cpu", "auto", "h100", "mine.yaml", "videos here"}));
    CHECK(bash.complete({"presets", "--show", "c"}) == Answers{"cpu"});
    // An option with its value precedes the command.
    CHECK(bash.complete({"--cpu-tier", "avx2", "-v", "pl"}) == Answers{"plan"});
  }

  TEST_CASE("every option of --help is completed, by every shell") {
    const std::string help = run_cli({"run", "--help"}).out;
    const Answers offered = Bash().complete({"run", "--"});
    const std::string zsh = run_cli({"completion", "zsh"}).out;
    const std::string fish = run_cli({"completion", "fish"}).out;
    int count = 0;
    std::istringstream words(help.substr(0, help.find("\nExamples:")));
    for (std::string word; words >> word;) {
      if (!word.starts_with("--")) continue;
      CAPTURE(word);
      ++count;
      CHECK(offered.contains(word));
      CHECK(zsh.find(word) != std::string::npos);
      CHECK(fish.find(" -l " + word.substr(2) + " ") != std::string::npos);
    }
    CHECK(count > 40);
  }

  TEST_CASE("the scripts are good in their shells") {
    struct Case {
      const char* shell;
      const char* check;  // command that checks a script's syntax
    };
    for (const Case& c :
         {Case{"bash", "bash -n "}, Case{"zsh", "zsh -n "}, Case{"fish", "fish --no-execute "}}) {
      CAPTURE(c.shell);
      const Finished made = run_cli({"completion", c.shell});
      CHECK(made.exit_code == 0);
      CHECK(made.out.size() > 1000);
      if (!has_program(c.shell)) {
        MESSAGE(std::string(c.shell), " is not installed: its completions are not checked");
        continue;
      }
      const TemporaryFolder folder;
      const std::string script = (folder.path() / "script").string();
      write_text(script, made.out);
      const Finished checked = run_shell(c.check + shell_quoted(script));
      CAPTURE(checked.out);
      CHECK(checked.exit_code == 0);
      CHECK(checked.out.empty());
    }
  }

  TEST_CASE("fish offers what bash does") {
    if (!has_program("fish")) {
      MESSAGE("fish is not installed: its completions are not tried");
      return;
    }
    const TemporaryFolder folder;
    const std::string script = (folder.path() / "caption-cli.fish").string();
    write_text(script, run_cli({"completion", "fish"}).out);
    const auto complete = [&](const std::string& line) {
      return run_shell("HOME=" + shell_quoted(folder.path().string()) +
                       " fish --no-config -c 'source " + script + "; complete -C \"" + line + "\"'")
          .out;
    };
    CHECK(complete("caption-cli pr").starts_with("presets\t"));
    CHECK(complete("caption-cli run --max-new").starts_with("--max-new-tokens\t"));
    CHECK(complete("caption-cli run --dtype nf").starts_with("nf4"));
  }
}

TEST_SUITE("app/man") {
  TEST_CASE("there is a page for the program and one for each command, with every option") {
    const TemporaryFolder folder;
    CHECK(run_cli({"man", "--install-to", folder.path().string()}).exit_code == 0);
    for (const char* name : {"run", "eval", "plan", "bench", "presets", "inspect", "completion"}) {
      CAPTURE(name);
      const std::string page =
          read_text(folder.path() / "man/man1" / ("caption-cli-" + std::string(name) + ".1"));
      CHECK(page == run_cli({"man", name}).out);
      for (const char* section : {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES"}) {
        CAPTURE(section);
        CHECK(page.find(".SH \"" + std::string(section) + "\"\n") != std::string::npos);
      }
      std::istringstream words(run_cli({name, "--help"}).out);
      for (std::string word; words >> word && word != "Examples:";) {
        if (!word.starts_with("--")) continue;
        if (word.ends_with(':')) word.pop_back();  // mentioned in a text
        CAPTURE(word);
        std::string escaped;
        for (const char c : word) escaped += c == '-' ? std::string("\\-") : std::string(1, c);
        CHECK(page.find("\\fB" + escaped + "\\fR") != std::string::npos);
      }
    }
    const std::string page = read_text(folder.path() / "man/man1/caption-cli.1");
    CHECK(page == run_cli({"man"}).out);
    for (const char* text : {"EXIT STATUS", "SIZES AND TIMES", "NO_COLOR", "powers of 1024"}) {
      CAPTURE(text);
      CHECK(page.find(text) != std::string::npos);
    }
    for (const char* file :
         {"bash-completion/completions/caption-cli", "zsh/site-functions/_caption-cli",
          "fish/vendor_completions.d/caption-cli.fish"}) {
      CAPTURE(file);
      CHECK(fs::exists(folder.path() / file));
    }
    CHECK(run_cli({"man", "rnu"}).err.find("did you mean run?") != std::string::npos);
    CHECK(run_cli({"man", "--install-to", "/proc/none"}).exit_code == 5);
  }

  TEST_CASE("the manual and the README say the same of every exit code") {
    const std::string readme = read_text(fs::path(CAPTION_SOURCE_DIR) / "README.md");
    const std::string page = run_cli({"man"}).out;
    const std::string heading = "| exit code | meaning |\n|---|---|\n";
    REQUIRE(readme.find(heading) != std::string::npos);
    std::istringstream lines(readme.substr(readme.find(heading) + heading.size()));
    int num_rows = 0;
    for (std::string line; std::getline(lines, line) && line.starts_with("| "); ++num_rows) {
      CAPTURE(line);
      const std::size_t bar = line.find(" | ");
      const std::string code = line.substr(2, bar - 2);
      std::string meaning = line.substr(bar + 3, line.rfind(" |") - bar - 3);
      meaning[0] = static_cast<char>(meaning[0] - 'a' + 'A');
      std::string escaped;
      for (const char c : meaning) escaped += c == '-' ? std::string("\\-") : std::string(1, c);
      CHECK(page.find(".TP\n\\fB" + code + "\\fR\n" + escaped + ".\n") != std::string::npos);
    }
    CHECK(num_rows == 9);
  }

  TEST_CASE("man and mandoc have nothing to say against the pages") {
    const TemporaryFolder folder;
    REQUIRE(run_cli({"man", "--install-to", folder.path().string()}).exit_code == 0);
    // In small containers `man` is a script that only reports that there are no manuals.
    const bool has_man = run_shell("man --version").out.starts_with("man ");
    const bool has_mandoc = has_program("mandoc");
    if (!has_man) MESSAGE("man is not installed: pages are not checked by it");
    if (!has_mandoc) MESSAGE("mandoc is not installed: pages are not checked by it");
    for (const auto& entry : fs::directory_iterator(folder.path() / "man/man1")) {
      const std::string page = shell_quoted(entry.path().string());
      CAPTURE(page);
      if (has_man) {
        const Finished shown = run_shell(
            "LC_ALL=C.UTF-8 MANROFFSEQ= MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z " + page +
            " >/dev/null");
        CHECK(shown.exit_code == 0);
        CHECK(shown.out == "");
      }
      if (has_mandoc) {
        // The pages have no date, so that two builds of one commit are equal.
        const Finished linted =
            run_shell("mandoc -T lint -W warning " + page + " | grep -v 'missing date'");
        CHECK(linted.out == "");
      }
    }
  }
}

}  // namespace
}  // namespace caption::test
