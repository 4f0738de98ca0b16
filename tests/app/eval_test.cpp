// Tests `caption-cli eval` as a process: inputs, exit codes and messages.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/app/process.h"
#include "tests/video/make_clip.h"

namespace caption::test {
namespace {

const std::string kCaptions =
    "{\"video\": \"1.mp4\", \"caption\": \"옛 글\"}\n"
    "{\"video\": \"2.mp4\", \"caption\": \"넓은 바다\", \"status\": \"suspicious\"}\n"
    "{\"video\": \"1.mp4\", \"caption\": \"푸른 하늘\"}\n";
const std::string kReferences =
    "{\"video\": \"1.mp4\", \"caption\": \"푸른 하늘\"}\r\n"
    "{\"video\": \"2.mp4\", \"caption\": \"넓은 바다\"}\r\n";

std::string file(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  const std::string path = (folder.path() / name).string();
  write_text(path, text);
  return path;
}

Finished eval(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), "eval");
  arguments.insert(arguments.end(), {"--metrics", "bleu-4,chrf2", "--resamples", "10"});
  return run_cli(arguments, input);
}

TEST_SUITE("app/eval") {
  TEST_CASE("captions or references come from standard input, but not both") {
    const TemporaryFolder folder;
    const std::string captions = file(folder, "c.jsonl", kCaptions);
    const std::string references = file(folder, "r.jsonl", kReferences);
    const Finished plain = eval({captions, "--references", references});
    CHECK(plain.exit_code == 0);
    CHECK(plain.out.find("same clip and prompt: 1") != std::string::npos);
    CHECK(plain.out.find("suspicious, scored like the others (1): 2.mp4") != std::string::npos);
    CHECK(eval({"-", "--references", references}, kCaptions).out == plain.out);
    CHECK(eval({captions, "--references", "-"}, kReferences).out == plain.out);
    const Finished both = eval({"-", "--references", "-"}, kCaptions);
    CHECK(both.exit_code == 2);
    CHECK(both.err.find("cannot both come from standard input") != std::string::npos);
    const Finished none = eval({"-", "--references", references}, "");
    CHECK(none.exit_code == 3);
    CHECK(none.err.find("standard input: holds no caption") != std::string::npos);
  }

  TEST_CASE("bad lines of both inputs are said in one go, and nothing is scored") {
    const TemporaryFolder folder;
    const std::string captions = file(folder, "c.jsonl", kCaptions + "{\"video\": 3}\n{\n");
    const std::string references = file(folder, "r.jsonl", kReferences + "{\"video\": \"3\"}\n");
    const Finished finished = eval({captions, "--references", references});
    CHECK(finished.exit_code == 3);
    CHECK(finished.out.empty());
    for (const char* wanted : {"c.jsonl:4: ", "r.jsonl:3: no reference",
                               "; 1 more line or file cannot be used (-v names the first ten)\n"}) {
      CAPTURE(wanted);
      CHECK(finished.err.find(wanted) != std::string::npos);
    }
    CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
    const Finished verbose = eval({"-v", captions, "--references", references});
    CHECK(verbose.err.find("eval: " + captions + ":5: ") != std::string::npos);
    const std::string middle = file(folder, "m.jsonl", "{\"video\": }\n" + kCaptions);
    CHECK(eval({middle, "--references", file(folder, "g.jsonl", kReferences)})
              .err.ends_with("m.jsonl:1: not valid JSON: column 11: the value after : is missing; "
                             "mend or remove the line\n"));
  }

  TEST_CASE("captions of several configurations are scored with a note") {
    const TemporaryFolder folder;
    const std::string references = file(folder, "r.jsonl",
                                        R"({"video":"a.mp4","caption":"\uC0B0"})"
                                        "\n"
                                        R"({"video":"b.mp4","caption":"\uC0B0"})"
                                        "\n");
    const auto captions = [&](const std::string& second) {
      return file(folder, "c.jsonl",
                  R"({"video":"a.mp4","caption":"\uC0B0","settings":"1"})"
                  "\n"
                  R"({"video":"b.mp4","caption":"\uC0B0","settings":")" +
                      second + "\"}\n");
    };
    const std::string note = "the captions were made with 2 configurations";
    CHECK(eval({captions("2"), "--references", references}).err.find(note) != std::string::npos);
    CHECK(eval({captions("1"), "--references", references}).err.find(note) == std::string::npos);
  }

  TEST_CASE("--reference-field beside lines of JSON is told to have no effect") {
    const TemporaryFolder folder;
    const std::string references = file(folder, "r.jsonl", kReferences);
    const Finished finished = eval({file(folder, "c.jsonl", kCaptions), "--references", references,
                                    "--reference-field", "text"});
    CHECK(finished.exit_code == 0);
    CHECK(finished.err.find("warning: eval: --reference-field has no effect with --references " +
                            references + ", which is no folder of label files\n") !=
          std::string::npos);
  }

  TEST_CASE("synonyms that are no stems are told once, with an example") {
    const TemporaryFolder folder;
    const std::string captions = file(folder, "c.jsonl", kCaptions);
    const std::string references = file(folder, "r.jsonl", kReferences);
    const auto warning_of = [&](const std::string& text) {
      const std::string synonyms = file(folder, "s.tsv", text);
      const Finished finished = run_cli({"eval", captions, "--references", references, "--metrics",
                                         "meteor-ko", "--synonyms", synonyms});
      CHECK(finished.exit_code == 0);
      const std::size_t begin = finished.err.find("warning: eval: --synonyms " + synonyms);
      return begin == std::string::npos ? std::string() : finished.err.substr(begin);
    };
    CHECK(warning_of("하늘\t창공\n바다\t해양\n").empty());
    CHECK(warning_of("하늘에서는\t창공\n")
              .find(": stems are compared, and 1 word is none: \"하늘에서는\" has the stem "
                    "\"하늘\"\n") != std::string::npos);
    CHECK(warning_of("푸른 하늘\t하늘에서는\n")
              .find(": stems are compared, and 2 words are none: \"푸른 하늘\" is no single "
                    "word\n") != std::string::npos);
  }

  TEST_CASE("--dictionary and --synonyms without meteor-ko are told to have no effect") {
    const TemporaryFolder folder;
    const std::string synonyms = file(folder, "s.tsv", "하늘\t창공\n");
    const Finished finished = eval({file(folder, "c.jsonl", kCaptions), "--references",
                                    file(folder, "r.jsonl", kReferences), "--dictionary",
                                    (folder.path() / "none").string(), "--synonyms", synonyms});
    CHECK(finished.exit_code == 0);
    for (const char* const option : {"--dictionary", "--synonyms"}) {
      CHECK(finished.err.find("warning: eval: " + std::string(option) +
                              " has no effect without the metric meteor-ko\n") !=
            std::string::npos);
    }
  }

  TEST_CASE("what run writes as txt is known, and is one problem") {
    const TemporaryFolder folder;
    const std::string references = file(folder, "r.jsonl", kReferences);
    for (const char* const text : {"a/1.mp4: 하늘이 맑습니다\n2.mp4: 구름\n",
                                   "1.mp4 (short): 하늘\n2.mp4 (short): 구름\n"}) {
      const Finished finished = eval({file(folder, "c.txt", text), "--references", references});
      CHECK(finished.exit_code == 3);
      CHECK(finished.err.find(
                "c.txt:1: lines of text, as `run --format txt` writes them; JSON lines "
                "are expected, which `run` writes with --format jsonl\n") != std::string::npos);
      CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
    }
    // A comment or another JSON text is no such file.
    for (const char* const text : {"# made: today\n", "[{\"video\": \"1.mp4\"}]\n"}) {
      const Finished finished = eval({file(folder, "c.txt", text), "--references", references});
      CHECK(finished.err.find("--format") == std::string::npos);
    }
  }

  TEST_CASE("an empty name of a file is refused, not taken for none") {
    for (const char* const option : {"--json", "--per-clip", "--synonyms"}) {
      const Finished finished = eval({"c.jsonl", "--references", "r.jsonl", option, ""});
      CHECK(finished.exit_code == 2);
      CHECK(finished.err.find(std::string(option) + " needs a value (FILE), and \"\" is none") !=
            std::string::npos);
    }
  }

  TEST_CASE("files that are both missing are both named, whatever their names hold") {
    const Finished finished = eval({"--references", "a\x1b[31m\nb", "x\ny"});
    CHECK(finished.exit_code == 3);
    CHECK(finished.err.find("a\\x1b[31m\\x0ab: No such file or directory; name a file that is "
                            "there; ") != std::string::npos);
    CHECK(finished.err.find("x\\x0ay: No such file") != std::string::npos);
    CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
  }

  TEST_CASE("a dictionary that is named is used, by any of its names, or refused") {
    const TemporaryFolder folder;
    const std::string captions = file(folder, "c.jsonl", kCaptions);
    const std::string references = file(folder, "r.jsonl", kReferences);
    const std::string base = (folder.path() / "ko").string();
    const auto score = [&](const std::string& dictionary) {
      return run_cli({"eval", captions, "--references", references, "--metrics", "meteor-ko",
                      "--resamples", "10", "--dictionary", dictionary});
    };
    const Finished missing = score(base);
    CHECK(missing.exit_code == 3);
    CHECK(missing.out.empty());
    CHECK(missing.err.find(base + ".aff: ") != std::string::npos);
    CHECK(std::count(missing.err.begin(), missing.err.end(), '\n') == 1);
    write_text(base + ".dic", "1\n하늘이\n");
    CHECK(score(base + ".dic").exit_code == 3);
    write_text(base + ".aff", "SET UTF-8\n");
    for (const std::string& name : {base, base + ".aff", base + ".dic", folder.path().string()}) {
      CAPTURE(name);
      const Finished finished = score(name);
      CHECK(finished.exit_code == 0);
      CHECK(finished.out.find("mode hunspell") != std::string::npos);
    }
  }

  TEST_CASE("references by prompt only score the captions of a prompt, and no others") {
    const TemporaryFolder folder;
    const std::string references = file(
        folder, "r.jsonl", "{\"video\": \"1.mp4\", \"prompts\": {\"short\": [\"푸른 하늘\"]}}\n");
    const std::string named =
        file(folder, "n.jsonl",
             "{\"video\": \"1.mp4\", \"caption\": \"푸른 하늘\", \"prompt\": \"short\"}\n");
    CHECK(eval({named, "--references", references}).exit_code == 0);
    CHECK(eval({named, "--references", references, "--prompt", "short"}).exit_code == 0);
    const std::string plain = file(folder, "c.jsonl", kCaptions);
    const Finished unnamed = eval({plain, "--references", references});
    CHECK(unnamed.exit_code == 3);
    CHECK(unnamed.err.find("the captions name no prompt") != std::string::npos);
    const Finished chosen = eval({plain, "--references", references, "--prompt", "short"});
    CHECK(chosen.exit_code == 2);
    CHECK(chosen.err.find("--prompt \"short\": the captions name no prompt") != std::string::npos);
  }

  TEST_CASE("a seed is a whole number without a sign") {
    const TemporaryFolder folder;
    const std::string captions = file(folder, "c.jsonl", kCaptions);
    const std::string references = file(folder, "r.jsonl", kReferences);
    for (const char* option : {"--seed", "--shuffled"}) {
      for (const char* value : {"-1", "x", "1.5", "18446744073709551616"}) {
        CAPTURE(option);
        CAPTURE(value);
        const Finished refused = eval({captions, "--references", references, option, value});
        CHECK(refused.exit_code == 2);
        CHECK(refused.err == "error: caption-cli: " + std::string(option) +
                                 ": expected a whole number from 0 to 18446744073709551615, found "
                                 "\"" +
                                 value + "\"\n");
      }
      CHECK(
          eval({captions, "--references", references, option, "18446744073709551615"}).exit_code ==
          0);
    }
  }

  TEST_CASE("a name that is escaped in its record is not escaped again") {
    const TemporaryFolder folder;
    const std::string captions =
        file(folder, "c.jsonl", "{\"video\": \"a\\\\x0ab.mp4\", \"caption\": \"푸른 하늘\"}\n");
    const std::string raw =
        file(folder, "r.jsonl", "{\"video\": \"a\\nb.mp4\", \"caption\": \"푸른 하늘\"}\n");
    const Finished found = eval({captions, "--references", raw, "--per-clip", "-"});
    CHECK(found.exit_code == 0);
    CHECK(found.out.find("\"video\": \"a\\\\x0ab.mp4\", \"status\": \"scored\"") !=
          std::string::npos);
    const std::string other =
        file(folder, "o.jsonl", "{\"video\": \"c.mp4\", \"caption\": \"푸른 하늘\"}\n");
    const Finished missed = eval({captions, "--references", other});
    CHECK(missed.exit_code == 3);
    CHECK(missed.err.find("captions are for a\\x0ab.mp4;") != std::string::npos);
  }
}

}  // namespace
}  // namespace caption::test
