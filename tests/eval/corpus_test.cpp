#include "eval/corpus.h"

#include <doctest/doctest.h>

#include <string>
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
    const std::vector<CaptionEntry> captions = read_captions(path);
    REQUIRE(captions.size() == 4);
    CHECK(captions[0].video == "a/1.mp4");
    CHECK(captions[0].caption == "하늘");
    CHECK(captions[1].caption.empty());
    CHECK_FALSE(captions[1].is_failed);
    CHECK(captions[2].is_failed);
    CHECK(captions[3].caption == "바다");
    CHECK(captions[3].where == path.string() + ":5");
  }

  TEST_CASE("of captions for several prompts, those of one are scored") {
    const CaptionEntry brief{.video = "a.mp4", .caption = "1", .where = "", .prompt = "short"};
    const CaptionEntry full{.video = "a.mp4", .caption = "2", .where = "", .prompt = "long"};
    CHECK(choose_prompt({brief}, std::nullopt).size() == 1);
    const auto chosen = choose_prompt({brief, full}, "long");
    REQUIRE(chosen.size() == 1);
    CHECK(chosen[0].caption == "2");
    CHECK_THROWS_WITH_AS(choose_prompt({brief, full}, std::nullopt),
                         "the captions answer several prompts; choose one with --prompt: "
                         "\"short\", \"long\"",
                         Error);
    CHECK_THROWS_WITH_AS(choose_prompt({brief}, "long"), doctest::Contains("no caption answers"),
                         Error);
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
        {"a list", good + "[1, 2]\n", "c.jsonl:2"},
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
    CHECK(references.entries[0].video == "b");
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

  TEST_CASE("a folder without \"labels\" gives all its JSON files; broken ones are named") {
    const auto folder = fresh_folder("corpus_flat");
    CHECK(message_of([&] { read_references(folder); }).find("label files") != std::string::npos);
    write_file(folder / "x.json", "{\"texts\": [{\"ko\": \"하늘\"}]}");
    CHECK(read_references(folder, "texts.0.ko").entries[0].captions.front() == "하늘");
    write_file(folder / "y.json", "{\"texts\": ");
    CHECK(message_of([&] { read_references(folder, "texts.0.ko"); }).find("y.json") !=
          std::string::npos);
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

  TEST_CASE("duplicate ids are errors that name them and both places") {
    const auto duplicate_captions = captions_of({"a/1.mp4", "a/1.mp4", "a/2.mp4"});
    const std::string message = message_of([&] {
      pair_up(references_of({"1.mp4", "2.mp4"}), duplicate_captions);
    });
    CHECK(message.find("duplicate ids among the captions") != std::string::npos);
    CHECK(message.find("1.mp4 (c:1 and c:1)") != std::string::npos);
    CHECK(message_of([&] {
            pair_up(references_of({"1.mp4", "1.mp4"}), captions_of({"1.mp4"}));
          }).find("among the references") != std::string::npos);
    CHECK(
        message_of([&] {
          pair_up(references_of({"a/1.mp4"}), captions_of({"a/1.mp4", "b/1.mp4"}), MatchBy::kName);
        }).find("matched by name") != std::string::npos);
  }

  TEST_CASE("names that repeat in different folders are told apart by path") {
    const Corpus corpus =
        pair_up(references_of({"a/1.mp4", "./b/1.mp4"}), captions_of({"b/1.mp4", "a//1.mp4"}));
    CHECK(corpus.match == MatchBy::kPath);
    CHECK(corpus.missing.empty());
    CHECK(corpus.extra.empty());
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
