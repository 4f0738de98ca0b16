#include "eval/corpus.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "golden.h"

namespace caption::eval {
namespace {

std::string message_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadReference);
    return error.what();
  }
  return "no error";
}

References references_of(const std::vector<std::string>& videos) {
  References references;
  for (const std::string& video : videos) references.entries.push_back({video, {"글"}, "r:1"});
  return references;
}

std::vector<CaptionEntry> captions_of(const std::vector<std::string>& videos) {
  std::vector<CaptionEntry> captions;
  for (const std::string& video : videos) captions.push_back({video, "글", false, "c:1"});
  return captions;
}

}  // namespace

TEST_SUITE("eval/corpus") {
  TEST_CASE("reads captions as run writes them, and simpler") {
    const auto folder = fresh_folder("corpus_captions");
    const auto path = write_file(
        folder / "c.jsonl",
        "\xEF\xBB\xBF{\"video\": \"a/1.mp4\", \"window_s\": [0, 8], \"caption\": \"하늘\", "
        "\"status\": \"ok\", \"tokens\": {\"prompt\": 3}}\r\n"
        "\r\n"
        "{\"video\": \"2.mp4\", \"caption\": \"\"}\n"
        "{\"video\": \"3.mp4\", \"status\": \"failed\", \"error\": {\"code\": \"no_frames\"}}\n"
        "{\"video\": \"4.mp4\", \"caption\": \"바다\", \"status\": \"looped\"}");
    const std::vector<CaptionEntry> captions = read_captions(path).entries;
    REQUIRE(captions.size() == 4);
    CHECK(captions[0].video == "a/1.mp4");
    CHECK(captions[0].caption == "하늘");
    CHECK(captions[1].caption.empty());
    CHECK_FALSE(captions[1].is_failed);
    CHECK(captions[2].is_failed);
    CHECK(captions[3].caption == "바다");
    CHECK(captions[3].where == path.string() + ":5");
    const auto indented =
        write_file(folder / "i.jsonl", " \t{\"video\": \"1.mp4\", \"caption\": \"산\"}\n");
    const std::vector<CaptionEntry> of_indented = read_captions(indented).entries;
    REQUIRE(of_indented.size() == 1);
    CHECK(of_indented[0].caption == "산");
  }

  TEST_CASE("of captions for several prompts, those of one are scored") {
    const CaptionEntry brief{.video = "a.mp4", .caption = "1", .where = "", .prompt = "short"};
    const CaptionEntry full{.video = "a.mp4", .caption = "2", .where = "", .prompt = "long"};
    CHECK(choose_captions({brief}, std::nullopt).size() == 1);
    const auto chosen = choose_captions({brief, full}, "long");
    REQUIRE(chosen.size() == 1);
    CHECK(chosen[0].caption == "2");
    CHECK_THROWS_WITH_AS(choose_captions({brief, full}, std::nullopt),
                         "the captions answer several prompts; choose one with --prompt: "
                         "\"short\", \"long\"",
                         Error);
    CHECK_THROWS_WITH_AS(choose_captions({brief}, "long"), doctest::Contains("no caption answers"),
                         Error);
    const CaptionEntry plain{.video = "a.mp4", .caption = "3", .where = ""};
    CHECK_THROWS_WITH_AS(choose_captions({plain}, "x"),
                         "--prompt \"x\": the captions name no prompt, so there is none to choose; "
                         "leave --prompt out (run --prompts names them)",
                         Error);
    CHECK(choose_captions({plain}, "").size() == 1);
    CHECK_THROWS_WITH_AS(choose_captions({plain, brief}, "x"),
                         doctest::Contains("--prompt: \"\" (those that name none), \"short\""),
                         Error);
  }

  TEST_CASE("captions of several adapters are not scored as one") {
    const auto path =
        write_file(fresh_folder("corpus_adapters") / "c.jsonl",
                   "{\"video\": \"1\", \"caption\": \"a\", \"prompt\": \"p\", \"adapter\": \"A\"}\n"
                   "{\"video\": \"1\", \"caption\": \"b\", \"prompt\": \"p\", \"adapter\": \"B\"}\n"
                   "{\"video\": \"1\", \"caption\": \"c\", \"prompt\": \"q\"}\n");
    const std::vector<CaptionEntry> captions = read_captions(path).entries;
    REQUIRE(captions.size() == 3);
    CHECK_THROWS_WITH_AS(choose_captions(captions, "p"),
                         "the captions were made with several adapters; choose one with --adapter: "
                         "\"A\", \"B\"",
                         Error);
    const auto chosen = choose_captions(captions, "p", "B");
    REQUIRE(chosen.size() == 1);
    CHECK(chosen[0].caption == "b");
    // The adapter alone leaves one prompt here.
    CHECK(choose_captions(captions, std::nullopt, "A").at(0).caption == "a");
    CHECK(choose_captions(captions, std::nullopt, "").at(0).caption == "c");
    CHECK_THROWS_WITH_AS(choose_captions(captions, "q", "A"),
                         "--prompt: no caption answers \"q\"; choose one with --prompt: \"p\"",
                         Error);
    CHECK_THROWS_WITH_AS(choose_captions(captions, "p", "C"),
                         "--adapter: no caption was made with the adapter \"C\"; choose one with "
                         "--adapter: \"A\", \"B\", \"\" (those that name none)",
                         Error);
    CHECK_THROWS_WITH_AS(choose_captions({{.video = "1", .caption = "a", .where = ""}}, {}, "A"),
                         "--adapter \"A\": the captions name no adapter, so there is none to "
                         "choose; leave --adapter out",
                         Error);
    CHECK(choose_captions(captions, "q").size() == 1);
    std::vector<CaptionEntry> unnamed = {{.video = "1", .caption = "a", .where = ""},
                                         {.video = "2", .caption = "b", .where = ""}};
    unnamed[1].adapter = "A";
    CHECK_THROWS_WITH_AS(choose_captions(unnamed, std::nullopt),
                         doctest::Contains("\"\" (those that name none), \"A\""), Error);
    unnamed[0].adapter = "A";
    CHECK(choose_captions(unnamed, std::nullopt).size() == 2);
  }

  TEST_CASE("references may be by prompt only") {
    const auto folder = fresh_folder("corpus_only_prompts");
    const auto path = write_file(
        folder / "r.jsonl",
        "{\"video\": \"1.mp4\", \"prompts\": {\"full\": [\"길게\"], \"short\": [\"짧게\"]}}\n"
        "{\"video\": \"2.mp4\", \"caption\": \"둘\", \"prompts\": {\"short\": [\"둘째\"]}}\n");
    const References references = read_references(path);
    const References brief = choose_references(references, "short");
    CHECK(brief.entries[0].captions == std::vector<std::string>{"짧게"});
    CHECK(brief.entries[1].captions == std::vector<std::string>{"둘째"});
    CHECK(message_of([&] { choose_references(references, ""); }) ==
          "there are only references by prompt (\"full\", \"short\") at " + path.string() +
              ":1, but the captions name no prompt: give these lines \"captions\" too, or name the "
              "prompts of the captions with run --prompts");
    CHECK(message_of([&] {
            choose_references(references, "keywords");
          }).ends_with(":1, but the captions answer the prompt \"keywords\""));
    CHECK(message_of([&] { choose_references(references, "full"); }).find("r.jsonl:2") !=
          std::string::npos);
    write_file(path, "{\"video\": \"1.mp4\", \"prompts\": {}}\n");
    CHECK(message_of([&] { read_references(path); }).find("no reference; expected") !=
          std::string::npos);
  }

  TEST_CASE("references of a named prompt take the place of the others") {
    const auto folder = fresh_folder("corpus_prompt_references");
    const std::string first =
        "{\"video\": \"1.mp4\", \"captions\": [\"길게\"], \"prompts\": {\"short\": [\"짧게\", "
        "\"짧다\"]}}\n";
    const std::string second = "{\"video\": \"2.mp4\", \"captions\": [\"둘째\"]}\n";
    const auto path = write_file(folder / "r.jsonl", first);
    const References references = read_references(path);
    CHECK(choose_references(references, "short").entries[0].captions ==
          std::vector<std::string>{"짧게", "짧다"});
    CHECK(choose_references(references, "").entries[0].captions ==
          std::vector<std::string>{"길게"});
    write_file(path, first + second);
    CHECK(message_of([&] {
            choose_references(read_references(path), "short");
          }).find("r.jsonl:2") != std::string::npos);
    write_file(path, "{\"video\": \"1.mp4\", \"caption\": \"가\", \"prompts\": {\"p\": []}}\n");
    CHECK(message_of([&] { read_references(path); }).find("prompt \"p\"") != std::string::npos);
  }

  TEST_CASE("a bad line of captions is named") {
    struct Case {
      const char* name;
      std::string text;
      const char* wanted;
    };
    const std::string good = "{\"video\": \"1.mp4\", \"caption\": \"하늘\"}\n";
    const Case cases[] = {
        {"broken JSON", good + "{\"video\": }\n" + good, "c.jsonl:2"},
        {"torn last line", good + good.substr(0, 20), "seems torn"},
        {"torn last line, where", good + good.substr(0, 20), "c.jsonl:2"},
        {"no video", good + "{\"caption\": \"하늘\"}\n", "c.jsonl:2: video: is missing"},
        {"empty video", "{\"video\": \"\", \"caption\": \"하늘\"}\n", "\"video\" is empty"},
        {"no caption", "{\"video\": \"1.mp4\"}\n", "c.jsonl:1: caption: is missing"},
        {"caption is a number", "{\"video\": \"1.mp4\", \"caption\": 3}\n", "expected a string"},
        {"unknown status", "{\"video\": \"1\", \"caption\": \"a\", \"status\": \"new\"}\n",
         "\"new\""},
        {"a list", good + "[1, 2]\n", "c.jsonl:2: begins with ["},
        {"a list of captions", "[" + good + "]", "one object a line is expected"},
        {"empty file", "", "holds no caption"},
        {"blank lines only", "\n \r\n\n", "holds no caption"},
        {"invalid UTF-8", "{\"video\": \"1.mp4\", \"caption\": \"\xFF\"}\n", "c.jsonl:1"},
        {"nested deeply", "{\"video\": " + std::string(5000, '['), "c.jsonl:1"},
        {"huge text", "{\"video\": \"1\", \"caption\": \"" + std::string(40000, 'a') + "\"}\n",
         "40000 bytes"},
        {"huge line", "{\"video\": \"" + std::string((16u << 20) + 1, 'a') + "\"}\n", "a line of"},
    };
    const auto folder = fresh_folder("corpus_bad");
    for (const Case& c : cases) {
      CAPTURE(c.name);
      const auto path = write_file(folder / "c.jsonl", c.text);
      const std::string message = message_of([&] { read_captions(path); });
      CAPTURE(message);
      CHECK(message.find(c.wanted) != std::string::npos);
      CHECK(message.size() < 1000);
    }
    CHECK(message_of([&] { read_captions(folder / "none.jsonl"); }).find("none.jsonl") !=
          std::string::npos);
    CHECK(message_of([&] { read_captions(folder); }).find("folder") != std::string::npos);
  }

  TEST_CASE("a text in UTF-16 is told from a torn one") {
    const auto folder = fresh_folder("corpus_utf16");
    const auto utf16 = [](const std::string& ascii, bool is_big, bool has_mark) {
      std::string out = !has_mark ? "" : is_big ? "\xFE\xFF" : "\xFF\xFE";
      for (const char c : ascii) {
        if (is_big) out += '\0';
        out += c;
        if (!is_big) out += '\0';
      }
      return out;
    };
    for (const bool is_big : {false, true}) {
      for (const bool has_mark : {false, true}) {
        const auto lines =
            write_file(folder / "r.jsonl",
                       utf16("{\"video\": \"1\", \"caption\": \"a\"}\n", is_big, has_mark));
        const std::string wanted =
            lines.string() +
            ": is in UTF-16; UTF-8 is expected, which \"iconv -f UTF-16 -t UTF-8\" makes of it";
        CHECK(message_of([&] { read_references(lines); }) == wanted);
        CHECK(message_of([&] { read_captions(lines); }) == wanted);
      }
    }
    const auto labels = fresh_folder("corpus_utf16_labels");
    write_file(labels / "a.json", utf16("{\"text\": \"a\"}", false, true));
    CHECK(message_of([&] { read_references(labels, "text"); }).find("a.json: is in UTF-16") !=
          std::string::npos);
  }

  TEST_CASE("reads references of one text or of several") {
    const auto folder = fresh_folder("corpus_references");
    const auto path = write_file(folder / "r.jsonl",
                                 "{\"video\": \"1.mp4\", \"captions\": [\"하늘\", \"바다\"]}\n"
                                 "{\"video\": \"2.mp4\", \"caption\": \"산\"}\n");
    const References references = read_references(path);
    REQUIRE(references.entries.size() == 2);
    CHECK(references.entries[0].captions == std::vector<std::string>{"하늘", "바다"});
    CHECK(references.entries[1].captions == std::vector<std::string>{"산"});
    CHECK_FALSE(references.is_label_folder);

    struct Case {
      const char* text;
      const char* wanted;
    };
    const Case cases[] = {
        {"{\"video\": \"1.mp4\"}\n", "r.jsonl:1: no reference"},
        {"{\"video\": \"1.mp4\", \"captions\": []}\n", "no reference"},
        {"{\"video\": \"1.mp4\", \"captions\": [\"a\", \" \"]}\n", "blank"},
        {"{\"video\": \"1.mp4\", \"captions\": [\"a\"], \"caption\": \"b\"}\n", "both"},
        {"{\"video\": \"1.mp4\", \"captions\": [\"a\", 3]}\n", "expected a string"},
        {"", "holds no reference"},
    };
    for (const Case& c : cases) {
      CAPTURE(c.text);
      write_file(path, c.text);
      CHECK(message_of([&] { read_references(path); }).find(c.wanted) != std::string::npos);
    }
  }

  TEST_CASE("reads a folder of label files by a dotted path") {
    const auto folder = fresh_folder("corpus_labels");
    write_file(folder / "train/labels/b.json", "{\"annotation\": {\"description_kr\": \"바다\"}}");
    write_file(folder / "val/labels/a.json", "{\"annotation\": {\"description_kr\": \"하늘\"}}");
    write_file(folder / "meta.json", "{\"not\": \"a label\"}");
    const References references = read_references(folder);
    REQUIRE(references.entries.size() == 2);
    CHECK(references.is_label_folder);
    CHECK(references.entries[0].video == "train/b");
    CHECK(references.entries[1].captions == std::vector<std::string>{"하늘"});

    const Corpus corpus = pair_up(references, captions_of({"videos/a.mp4", "videos/b.mp4"}));
    CHECK(corpus.match == MatchBy::kStem);
    CHECK(corpus.missing.empty());

    const std::string message =
        message_of([&] { read_references(folder, "annotation.description_en"); });
    CHECK(message.find("b.json") != std::string::npos);
    CHECK(message.find("annotation.description_en") != std::string::npos);
    CHECK(message.find("keys are: annotation") != std::string::npos);
  }

  TEST_CASE("a label is that of the clip whose whole name it has, with or without its suffix") {
    const auto folder = fresh_folder("corpus_dotted_labels");
    const auto write_label = [&](const char* name) {
      write_file(folder / name, "{\"annotation\": {\"description_kr\": \"바다\"}}");
    };
    write_label("clip.v2.json");
    write_label("뉴스 3.5분.mp4.JSON");
    write_label("._clip.json");  // as macOS leaves them
    write_label(".git/x.json");
    const Corpus corpus = pair_up(read_references(folder),
                                  captions_of({"clip.mp4", "clip.v2.mp4", "뉴스 3.5분.mp4"}));
    CHECK(corpus.segments.size() == 2);
    CHECK(corpus.missing.empty());
    CHECK(corpus.extra == std::vector<std::string>{"clip"});
  }

  TEST_CASE("labels of one name in several folders are matched by their paths") {
    const auto folder = fresh_folder("corpus_label_paths");
    for (const char* name : {"d1/labels/x.json", "d2/labels/x.json"}) {
      write_file(folder / name, "{\"annotation\": {\"description_kr\": \"바다\"}}");
    }
    std::filesystem::create_directory_symlink("..", folder / "d2/up");
    const References references = read_references(folder);
    CHECK(references.entries.size() == 2);
    const Corpus corpus = pair_up(references, captions_of({"films/d1/x.mp4", "films/d2/x.mkv"}));
    CHECK(corpus.match == MatchBy::kPath);
    CHECK(corpus.missing.empty());
    const std::string message =
        message_of([&] { pair_up(references, captions_of({"x.mp4"}), MatchBy::kStem); });
    CHECK(message.ends_with("keep one label file per clip, or choose --match path"));
  }

  TEST_CASE("where no caption belongs to a reference, other ways to match are named") {
    const std::string message = message_of([&] {
      pair_up(references_of({"a/1.mkv", "a/2.mkv"}), captions_of({"1.mp4", "3.mp4"}));
    });
    CHECK(message.ends_with("; --match stem finds captions for 1 of 2 references"));
  }

  TEST_CASE("a way to match that would be ambiguous is not named") {
    const std::string message = message_of([&] {
      pair_up(references_of({"/b/x/1.mp4", "/b/y/1.mp4", "/b/z/2.mp4"}),
              captions_of({"/a/x/1.mp4", "/a/y/1.mp4", "/a/z/2.mp4"}));
    });
    CHECK(message.find("matched by path") != std::string::npos);
    CHECK(message.find("--match") == std::string::npos);
  }

  TEST_CASE("a folder without \"labels\" gives all its JSON files; broken ones are named") {
    const auto folder = fresh_folder("corpus_flat");
    CHECK(message_of([&] { read_references(folder); }).find("label files") != std::string::npos);
    write_file(folder / "x.json", "{\"texts\": [{\"ko\": \"하늘\"}]}");
    CHECK(read_references(folder, "texts.0.ko").entries[0].captions.front() == "하늘");
    write_file(folder / "y.json", "{\"texts\": ");
    CHECK(message_of([&] { read_references(folder, "texts.0.ko"); }).find("y.json") !=
          std::string::npos);
  }

  TEST_CASE("bad lines and labels are counted, the first named and ten kept") {
    const auto folder = fresh_folder("corpus_many_bad");
    std::string captions = "{\"video\": \"ok.mp4\", \"caption\": \"하늘\"}\n";
    for (int i = 0; i < 11; ++i) captions += "{\"video\": }\n";
    const auto path = write_file(folder / "c.jsonl", captions);
    const std::string of_lines = message_of([&] { read_captions(path); });
    CHECK(of_lines.find("c.jsonl:2: ") != std::string::npos);
    CHECK(of_lines.find("c.jsonl:3: ") == std::string::npos);
    CHECK(of_lines.ends_with("; 10 more lines or files cannot be used"));

    write_file(folder / "labels/a.json", "{\"text\": \"하늘\"}");
    write_file(folder / "labels/b.json", "{\"text\": ");
    write_file(folder / "labels/c.json", "{\"text\": \" \"}");
    std::filesystem::create_symlink("nowhere.json", folder / "labels/d.json");
    Problems problems;
    CHECK(read_references(folder, "text", problems).entries.size() == 1);
    CHECK(problems.count() == 3);
    read_captions(folder / "none.jsonl", problems);
    CHECK(problems.count() == 4);
    const char* const wanted[] = {"b.json: ", "c.json: the reference is blank", "d.json", "none"};
    REQUIRE(problems.shown().size() == std::size(wanted));
    for (std::size_t i = 0; i < std::size(wanted); ++i) {
      CAPTURE(wanted[i]);
      CHECK(problems.shown()[i].find(wanted[i]) != std::string::npos);
    }
    const std::string summary = problems.summary();
    CHECK(message_of([&] { problems.throw_if_any(); }) == summary);
    CHECK(summary.starts_with(problems.shown().front() + "; 3 more "));
  }

  TEST_CASE("the last record of a clip and prompt counts") {
    const auto folder = fresh_folder("corpus_superseded");
    const auto file = [](const char* path) {
      return ", \"file\": {\"path\": \"" + std::string(path) + "\", \"bytes\": 3}";
    };
    const auto line = [](const char* video, const char* caption, const std::string& more) {
      return "{\"video\": \"" + std::string(video) + "\", \"caption\": \"" + caption + "\"" + more +
             "}\n";
    };
    const std::string prompt = ", \"prompt\": \"p\"", adapter = ", \"adapter\": \"A\"";
    struct Case {
      const char* name;
      std::string text;
      std::vector<std::string> captions;
      std::int64_t num_superseded;
    };
    const std::string id_1 = ", \"id\": \"01\"", id_2 = ", \"id\": \"02\"";
    const std::string moved = ", \"moved_from\": \"/a/1.mp4\"";
    const Case cases[] = {
        {"the same video", line("1", "old", "") + line("1", "new", ""), {"new"}, 1},
        {"three times",
         line("1", "a", "") + line("2", "b", "") + line("1", "c", "") + line("1", "d", ""),
         {"b", "d"},
         2},
        {"another prompt", line("1", "a", "") + line("1", "b", prompt), {"a", "b"}, 0},
        {"another adapter",
         line("1", "a", adapter) + line("1", "b", "") + line("1", "c", adapter),
         {"b", "c"},
         1},
        {"the same file by another name",
         line("a/1", "a", file("/x/a/1")) + line("1", "b", file("/x/a/1")),
         {"b"},
         1},
        {"another file of the same name",
         line("1", "a", file("/x/1")) + line("1", "b", file("/y/1")),
         {"a", "b"},
         0},
        {"an older record without its file",
         line("1", "a", "") + line("1", "b", file("/x/1")),
         {"b"},
         1},
        {"moved",
         line("a/1", "a", id_1 + file("/a/1.mp4")) +
             line("b/1", "a", id_1 + file("/b/1.mp4") + moved),
         {"a"},
         1},
        {"moved, and another film put in its place",
         line("a/1", "a", id_1 + file("/a/1.mp4")) +
             line("b/1", "a", id_1 + file("/b/1.mp4") + moved) +
             line("a/1", "z", id_2 + file("/a/1.mp4")),
         {"a", "z"},
         1},
        {"moved from where another film is by now",
         line("a/1", "z", id_2 + file("/a/1.mp4")) +
             line("b/1", "a", id_1 + file("/b/1.mp4") + moved),
         {"z", "a"},
         0},
        {"keys of another meaning",
         line("1", "a", ", \"id\": 7, \"file\": \"f\", \"moved_from\": [1], \"new\": {}"),
         {"a"},
         0},
    };
    for (const Case& c : cases) {
      CAPTURE(c.name);
      const Captions found = read_captions(write_file(folder / "c.jsonl", c.text));
      std::vector<std::string> captions;
      for (const CaptionEntry& entry : found.entries) captions.push_back(entry.caption);
      CHECK(captions == c.captions);
      CHECK(found.num_superseded == c.num_superseded);
    }
  }

  TEST_CASE("a suspicious caption is scored and named") {
    const auto folder = fresh_folder("corpus_suspicious");
    const auto path = write_file(folder / "c.jsonl",
                                 "{\"video\": \"1.mp4\", \"caption\": \"글\", \"status\": "
                                 "\"suspicious\", \"reason\": \"black frames\"}\n");
    const Corpus corpus = pair_up(references_of({"1.mp4"}), read_captions(path).entries);
    CHECK(corpus.segments[0].caption == "글");
    CHECK(corpus.suspicious == std::vector<std::string>{"1.mp4"});
  }

  TEST_CASE("a name with control characters matches raw and escaped") {
    for (const char* reference : {"a/1\n\t.mp4", "a/1\\x0a\\x09.mp4"}) {
      for (const char* caption : {"b/1\n\t.mp4", "b/1\\x0a\\x09.mp4"}) {
        CAPTURE(reference);
        CAPTURE(caption);
        const Corpus corpus = pair_up(references_of({reference}), captions_of({caption}));
        CHECK(corpus.missing.empty());
        CHECK(corpus.extra.empty());
        CHECK(corpus.segments[0].id == "1\\x0a\\x09.mp4");
      }
    }
    // A file name that contains the text \x41 literally; the references have it raw.
    const Corpus text = pair_up(references_of({"\\x41.mp4"}), captions_of({"\\x5cx41.mp4"}));
    CHECK(text.missing.empty());
    CHECK(text.extra.empty());

    const auto folder = fresh_folder("corpus_names");
    write_file(folder / "1\n\xFF.json", "{\"text\": \"하늘\"}");
    const References labels = read_references(folder, "text");
    CHECK(pair_up(labels, captions_of({"v/1\\x0a\\xff.mp4"})).missing.empty());
  }

  TEST_CASE("line ends of Windows and a byte order mark are passed over") {
    const auto folder = fresh_folder("corpus_windows");
    const std::string mark = "\xEF\xBB\xBF";
    const auto lines =
        write_file(folder / "r.jsonl", mark +
                                           "{\"video\": \"1.mp4\", \"caption\": \"산\"}\r\n\r\n"
                                           "{\"video\": \"2.mp4\", \"captions\": [\"강\"]}\r\n");
    const References references = read_references(lines);
    REQUIRE(references.entries.size() == 2);
    CHECK(references.entries[0].captions.front() == "산");
    CHECK(references.entries[1].where == lines.string() + ":3");
    write_file(folder / "labels/a.json", mark + "{\r\n\"text\": \"하늘\"\r\n}\r\n");
    CHECK(read_references(folder, "text").entries[0].captions.front() == "하늘");
  }

  TEST_CASE("captions and references come through a FIFO as well") {
    const auto fifo = fresh_folder("corpus_fifo") / "lines";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    const auto written = [&](const std::string& text) {
      return std::jthread([&fifo, text] { std::ofstream(fifo) << text; });
    };
    {
      const std::jthread writer = written("{\"video\": \"1.mp4\", \"caption\": \"하늘\"}\n");
      CHECK(read_captions(fifo).entries.at(0).caption == "하늘");
    }
    const std::jthread writer = written("{\"video\": \"1.mp4\", \"captions\": [\"바다\"]}\n");
    CHECK(read_references(fifo).entries.at(0).captions == std::vector<std::string>{"바다"});
  }

  TEST_CASE("linked folders of labels are followed once") {
    const auto folder = fresh_folder("corpus_links");
    write_file(folder / "far/a.json", "{\"text\": \"하늘\"}");
    std::filesystem::create_directories(folder / "set/inner");
    std::filesystem::create_directory_symlink(folder / "far", folder / "set/near");
    std::filesystem::create_directory_symlink(folder / "far", folder / "set/inner/again");
    std::filesystem::create_directory_symlink(folder / "set", folder / "set/inner/cycle");
    CHECK(read_references(folder / "set", "text").entries.size() == 1);
  }

  TEST_CASE("comma-separated values are one problem that names the format to use") {
    const auto folder = fresh_folder("corpus_csv");
    const auto path =
        write_file(folder / "out.csv", "video,prompt,status,caption\r\n1,,ok,하늘\r\n");
    const std::string message = message_of([&] { read_captions(path); });
    CHECK(message.find("out.csv:1: comma-separated values") != std::string::npos);
    CHECK(message.find("--format jsonl") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }

  TEST_CASE("missing, failed and extra ids are named") {
    std::vector<CaptionEntry> captions = captions_of({"out/1.mp4", "out/2.mp4", "out/9.mp4"});
    captions[1].is_failed = true;
    const Corpus corpus = pair_up(references_of({"1.mp4", "2.mp4", "3.mp4"}), captions);
    CHECK(corpus.match == MatchBy::kName);
    CHECK(corpus.failed == std::vector<std::string>{"2.mp4"});
    CHECK(corpus.missing == std::vector<std::string>{"3.mp4"});
    CHECK(corpus.extra == std::vector<std::string>{"9.mp4"});
    REQUIRE(corpus.segments.size() == 3);
    CHECK(corpus.segments[0].caption.has_value());
    CHECK_FALSE(corpus.segments[1].caption.has_value());
  }

  TEST_CASE("several captions for a reference, or references of a clip, are named with places") {
    const auto repeated_captions = captions_of({"a/1.mp4", "a/1.mp4", "a/2.mp4"});
    const std::string message = message_of([&] {
      pair_up(references_of({"1.mp4", "2.mp4"}), repeated_captions);
    });
    CHECK(message.find("several captions for one reference, matched by name") != std::string::npos);
    CHECK(message.find("1.mp4 (c:1 and c:1)") != std::string::npos);
    CHECK(message_of([&] {
            pair_up(references_of({"1.mp4", "1.mp4"}), captions_of({"1.mp4"}));
          }).find("several references of one clip") != std::string::npos);
    CHECK(message_of([&] {
            pair_up(references_of({"1.mp4", "1.mp4"}), captions_of({"1.mp4"}));
          }).ends_with("keep one line per clip, with all its texts in \"captions\""));
    CHECK(message_of([&] {
            pair_up(references_of({"a/1.mp4", "b/1.mp4"}), captions_of({"1.mp4"}), MatchBy::kName);
          }).ends_with("in \"captions\", or choose --match path"));
    CHECK(message_of([&] {
            pair_up(references_of({"1.mp4", "1.mkv"}), captions_of({"1.mp4"}), MatchBy::kStem);
          }).ends_with("in \"captions\", or choose --match name or --match path"));
    CHECK(
        message_of([&] {
          pair_up(references_of({"a/1.mp4"}), captions_of({"a/1.mp4", "b/1.mp4"}), MatchBy::kName);
        }).find("matched by name") != std::string::npos);
    CHECK(message_of([&] {
            pair_up(references_of({"1.mp4", "a/1.mp4"}), captions_of({"a/1.mp4"}), MatchBy::kPath);
          }).find("several references of one clip") != std::string::npos);
    // Ambiguous captions that match no reference are no error.
    const Corpus corpus = pair_up(references_of({"2.mp4"}), repeated_captions);
    CHECK(corpus.missing.empty());
    CHECK(corpus.extra.size() == 2);
  }

  TEST_CASE("names that repeat in different folders are told apart by path") {
    const Corpus corpus =
        pair_up(references_of({"a/1.mp4", "./b/1.mp4"}), captions_of({"b/1.mp4", "a//1.mp4"}));
    CHECK(corpus.match == MatchBy::kPath);
    CHECK(corpus.missing.empty());
    CHECK(corpus.extra.empty());
  }

  TEST_CASE("films of one relative name from two folders are told apart by their whole paths") {
    std::vector<CaptionEntry> captions = captions_of({"1.mp4", "1.mp4", "2.mp4"});
    captions[0].path = "/archive/a/1.mp4";
    captions[0].caption = "첫째";
    captions[1].path = "/archive/b/1.mp4";
    captions[1].caption = "둘째";
    const Corpus corpus =
        pair_up(references_of({"b/1.mp4", "/archive/a/1.mp4", "2.mp4"}), captions);
    REQUIRE(corpus.segments.size() == 3);
    CHECK(corpus.segments[0].caption == "둘째");
    CHECK(corpus.segments[1].caption == "첫째");
    CHECK(corpus.missing.empty());
    CHECK(corpus.extra.empty());
    // Neither path ends in "c/1.mp4", and "hive/a/1.mp4" does not begin at a folder's name.
    const Corpus other =
        pair_up(references_of({"c/1.mp4", "hive/a/1.mp4", "2.mp4"}), captions, MatchBy::kPath);
    CHECK(other.missing.size() == 2);
    CHECK(message_of([&] { pair_up(references_of({"1.mp4"}), captions); }).find("longer paths") !=
          std::string::npos);
  }

  TEST_CASE("the record of a file that was not there gives way to another of its name") {
    const auto folder = fresh_folder("corpus_absent");
    const auto path =
        write_file(folder / "c.jsonl",
                   "{\"video\": \"new/1.mp4\", \"caption\": \"글\", \"status\": \"ok\"}\n"
                   "{\"video\": \"old/1.mp4\", \"status\": \"failed\", \"error\": {\"code\": "
                   "\"not_found\", \"message\": \"no such file\"}}\n");
    const Corpus corpus = pair_up(references_of({"1.mp4"}), read_captions(path).entries);
    CHECK(corpus.segments[0].caption == "글");
    CHECK(corpus.extra.empty());
    // The reference may mean the undecodable film of the same name.
    write_file(folder / "c.jsonl",
               "{\"video\": \"new/1.mp4\", \"caption\": \"글\", \"status\": \"ok\"}\n"
               "{\"video\": \"old/1.mp4\", \"status\": \"failed\", \"error\": {\"code\": "
               "\"no_frames\", \"message\": \"no frame\"}}\n");
    CHECK(message_of([&] {
            pair_up(references_of({"1.mp4"}), read_captions(path).entries);
          }).find("several captions") != std::string::npos);
  }

  TEST_CASE("of several records of the same content the caption is taken") {
    std::vector<CaptionEntry> captions = captions_of({"a/1.mp4", "b/1.mp4"});
    captions[0].content = captions[1].content = "0f";
    captions[0].caption = "글";
    captions[1].is_failed = true;
    const Corpus corpus = pair_up(references_of({"1.mp4"}), captions);
    CHECK(corpus.segments[0].caption == "글");
    CHECK(corpus.extra.empty());
    captions[1].content = "0e";
    CHECK(message_of([&] {
            pair_up(references_of({"1.mp4"}), captions);
          }).find("several captions") != std::string::npos);
  }

  TEST_CASE("advice about an ambiguous reference never names what was chosen already") {
    const std::vector<CaptionEntry> captions = captions_of({"a/1.mp4", "b/1.mp4"});
    const auto message = [&](MatchBy match) {
      return message_of([&] { pair_up(references_of({"1.mp4"}), captions, match); });
    };
    CHECK(message(MatchBy::kName).find("choose --match path") != std::string::npos);
    CHECK(message(MatchBy::kPath).find("several captions") != std::string::npos);
    CHECK(message(MatchBy::kPath).find("--match path") == std::string::npos);
  }

  TEST_CASE("names in NFD and NFC are the same clip") {
    const Corpus corpus = pair_up(references_of({"\uD558\uB298.mp4"}),
                                  captions_of({"\u1112\u1161\u1102\u1173\u11AF.mp4"}));
    CHECK(corpus.missing.empty());
  }

  TEST_CASE("lists that share no clip are an error that shows both") {
    const std::string message =
        message_of([&] { pair_up(references_of({"a.mp4"}), captions_of({"b.mp4"})); });
    CHECK(message.find("a.mp4") != std::string::npos);
    CHECK(message.find("b.mp4") != std::string::npos);
  }

  TEST_CASE("long lists are named in part") {
    CHECK(list_some({"a", "b", "c"}, 2) == "a, b and 1 more");
    CHECK(list_some({"a", "b"}, 2) == "a, b");
    CHECK(list_some({}).empty());
  }
}

}  // namespace caption::eval
