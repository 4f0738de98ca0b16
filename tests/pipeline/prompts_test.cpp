// Several prompts on one clip share decoding and encoding, and each gets the caption of its prompt.
#include "pipeline/prompts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "base/error.h"
#include "fake_model.h"
#include "tests/support/stderr_of.h"

namespace caption::pipeline {
namespace {

namespace fs = std::filesystem;

fs::path write_file(const std::string& name, const std::string& text) {
  const fs::path path = fs::path(CAPTION_TEST_TMP) / name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string refusal(const std::string& text) {
  try {
    read_prompts(write_file("prompts_bad.txt", text));
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUsage);
    return error.what();
  }
}

// "+20" -> 20; "" -> 0.
int shift_of(const std::string& prompt) { return prompt.empty() ? 0 : std::stoi(prompt); }

TEST_SUITE("pipeline/prompts") {
  TEST_CASE("one prompt has no name, several are numbered") {
    CHECK(name_prompts({"a"}) == std::vector<Prompt>{{"", "a"}});
    CHECK(name_prompts({"a", "b"}) == std::vector<Prompt>{{"p1", "a"}, {"p2", "b"}});
  }

  TEST_CASE("a name that spaces part from its prompt is no name, and a warning says so") {
    const fs::path path =
        write_file("spaces.txt", "full    \ubb34\uc5c7\nName the season\nkeys\tx  y\n");
    const std::string log = test::stderr_of([&] {
      const std::vector<Prompt> prompts = read_prompts(path);
      CHECK(prompts.at(0).name == "p1");
    });
    CHECK(log ==
          "warning: prompts: " + path.string() +
              ":1: has no tab, so the whole line is the prompt p1; with a name it is written "
              "name<TAB>prompt\n");
  }

  TEST_CASE("reads names, prompts without a name, comments and Windows line ends") {
    const fs::path path = write_file(
        "prompts.txt",
        "# for the archive\r\n\r\nshort\t한 문장으로.\r\n자세히 설명해 주세요.\nkeys\ta\tb");
    CHECK(read_prompts(path) == std::vector<Prompt>{{"short", "한 문장으로."},
                                                    {"p2", "자세히 설명해 주세요."},
                                                    {"keys", "a\tb"}});
  }

  TEST_CASE("a byte order mark belongs to no name") {
    const fs::path path = write_file("prompts_bom.txt", "\xEF\xBB\xBFshort\tx\r\n");
    CHECK(read_prompts(path) == std::vector<Prompt>{{"short", "x"}});
    const fs::path comment = write_file("prompts_bom.txt", "\xEF\xBB\xBF# none\na\tx\n");
    CHECK(read_prompts(comment) == std::vector<Prompt>{{"a", "x"}});
  }

  TEST_CASE("a file that cannot be read is wrong usage") {
    const auto code_of = [](const fs::path& path) {
      try {
        read_prompts(path);
        return ErrorCode::kInternal;
      } catch (const Error& error) {
        CHECK(std::string(error.what()).find(path.string()) == 0);
        return error.code();
      }
    };
    CHECK(code_of(CAPTION_TEST_TMP) == ErrorCode::kUsage);
    CHECK(code_of("/no/such/prompts.txt") == ErrorCode::kUsage);
    CHECK(code_of("/dev/null") == ErrorCode::kUsage);
    CHECK(code_of(write_file("prompts_large.txt", std::string((1u << 20) + 1, 'x'))) ==
          ErrorCode::kUsage);
  }

  TEST_CASE("a broken file is refused at its line") {
    CHECK(refusal("a\tx\nb\ty\na\tz\n")
              .ends_with(":3: the prompt is named \"a\", as that of line 1; give one of them "
                         "another name"));
    CHECK(refusal("p2\tx\ny\n")
              .ends_with(":2: the prompt is named \"p2\", as that of line 1 (without a name of its "
                         "own the second prompt is p2, and so on); give one of them another name"));
    CHECK(
        refusal("\tx\n").ends_with(":1: a prompt without the name before its tab; write "
                                   "name<TAB>prompt, or the prompt alone"));
    CHECK(refusal("a\t \n").ends_with("has no prompt; write one, or remove the line"));
    CHECK(refusal("# nothing\n").find("no prompt in it") != std::string::npos);
    CHECK(refusal("a\t\xff\n").ends_with("not a text in UTF-8; save it as one"));
  }

  TEST_CASE("every clip is read once and answers every prompt, in any order of finish") {
    FakeModel model;
    std::atomic<int> num_encoded = 0;
    model.on_encode = [&](int) { ++num_encoded; };
    for (const engine::PrefixCache cache : {engine::PrefixCache::kOff, engine::PrefixCache::kOn}) {
      num_encoded = 0;
      std::atomic<int> num_read = 0;
      Options options = fake_options();
      options.engine.prefix_cache = cache;
      options.prompts = {{"+0", ""}, {"+20", "+20"}, {"+40", "+40"}};
      options.read_clip = [&](const OpenFile& file, const video::ReadOptions& read) {
        ++num_read;
        return make_clip(file, read);
      };
      constexpr int kNumClips = 100;
      KeepingSink sink;
      const Outcome outcome = run(model, clips(kNumClips), options, sink);
      CHECK(outcome.progress.clips_total == 3 * kNumClips);
      CHECK(outcome.progress.clips_done == 3 * kNumClips);
      CHECK(num_read == kNumClips);
      CHECK(num_encoded == kNumClips);
      std::set<std::pair<std::string, std::string>> seen;
      for (const records::Record& record : sink.kept) {
        CAPTURE(record.video);
        CAPTURE(record.prompt);
        CHECK(record.caption ==
              expected_caption(clip_number(record.video), shift_of(record.prompt)));
        CHECK(seen.insert({record.video, record.prompt}).second);
      }
      CHECK(seen.size() == 3 * kNumClips);
      // Captions finished in another order than that of the clips, so that no assignment is correct
      // by chance.
      CHECK_FALSE(
          std::is_sorted(sink.kept.begin(), sink.kept.end(), [](const auto& a, const auto& b) {
            return clip_number(a.video) < clip_number(b.video);
          }));
    }
  }

  TEST_CASE(
      "a clip answers the prompts that it has no record for, and a broken one fails for each") {
    FakeModel model;
    Options options = fake_options();
    options.prompts = {{"+0", ""}, {"+20", "+20"}, {"+40", "+40"}};
    options.read_clip = [&](const OpenFile& file, const video::ReadOptions& read) {
      if (file.path() == clip_name(1)) throw Error(ErrorCode::kNoFrames, "clip_1: no frame");
      return make_clip(file, read);
    };
    // A sink that already has clip_0's captions for the first two prompts.
    class HoldingSink final : public KeepingSinkBase {
     public:
      records::Earlier find(const records::ClipIdentity& clip, const std::string& video,
                            std::string_view prompt) override {
        CHECK(fs::path(clip.file.path).filename() == video);
        if (video != clip_name(0) || prompt == "+40") return {};
        return {.kind = records::Earlier::Kind::kFinished};
      }
    };
    HoldingSink sink;
    const Outcome outcome = run(model, clips(2), options, sink);
    CHECK(outcome.progress.clips_total == 4);
    CHECK(outcome.progress.clips_found == 2);
    CHECK(outcome.progress.clips_failed == 3);
    REQUIRE(sink.kept.size() == 4);
    for (const records::Record& record : sink.kept) {
      if (record.video == clip_name(0)) {
        CHECK(record.caption == expected_caption(0, 40));
      } else {
        CHECK(record.error->code == "no_frames");
      }
    }
  }

  TEST_CASE("a name with a control character is refused") {
    CHECK(refusal("a\tx\np\x1F"
                  "A\tx\n")
              .ends_with(":2: the name \"p\\u001fA\" holds a control character; give the prompt a "
                         "name without "
                         "one"));
    CHECK(refusal(R"({"name": "p\u001fA", "prompt": "x"})").find(":1: the name \"p\\u001fA\"") !=
          std::string::npos);
    CHECK(refusal(R"({"name": "p\tA", "prompt": "x"})").find("control") != std::string::npos);
    CHECK(refusal("p\x7F\tx").find("control") != std::string::npos);
  }

  TEST_CASE("a line of JSON may name an adapter") {
    const fs::path path = fs::path(CAPTION_TEST_TMP) / "prompts_json.txt";
    write_file(path,
               "short\t{짧게}\n"
               R"({"prompt": "길게", "name": "long", "adapter": "news"})"
               "\n"
               R"( {"prompt": "a\tb"})"
               "\n[1]\n");
    CHECK((read_prompts(path) ==
           std::vector<Prompt>{{.name = "short", .text = "{짧게}"},
                               {.name = "long", .text = "길게", .adapter = "news"},
                               {.name = "p3", .text = "a\tb"},
                               {.name = "p4", .text = "[1]"}}));
    struct Case {
      const char* line;
      const char* message;
    };
    constexpr Case kCases[] = {
        {R"({"prompt": "a", "adaptor": "x"})", ":1: unknown key \"adaptor\""},
        {R"({"name": "a"})", ":1: prompt: is missing"},
        {R"({"prompt": "a")", ":1: not valid JSON"},
        {R"({"a" and b}?)", R"(is written {"prompt": "{..."})"},
        {"x\n{name: \"a\", prompt: \"b\"}", ":2: not valid JSON"},
        {"{d}?", "a line that begins with { is JSON"},
        {"{}", ":1: prompt: is missing"},
        {"# a\n#b\n",
         ": no prompt in it, 2 comments (a line that begins with #; as a prompt it is "
         "written {\"prompt\": \"#...\"})"},
        {R"({"prompt": "a\u0000b"})", ":1: the prompt holds a NUL character"},
        {R"({"prompt": ""})", ":1: \"p1\" has no prompt"},
        {R"({"prompt": "a", "name": ""})", ":1: a prompt without the name"}};
    for (const Case& c : kCases) {
      CAPTURE(c.line);
      write_file(path, c.line);
      CHECK_THROWS_WITH_AS(read_prompts(path), doctest::Contains(c.message), Error);
    }
  }

  TEST_CASE("text is heard as it comes, and a stop string ends it") {
    FakeModel model;
    Options options = fake_options();
    std::string heard;
    int num_pieces = 0;
    options.on_text = [&](std::string_view text) {
      heard += text;
      ++num_pieces;
    };
    KeepingSink sink;
    clips(13);  // also sets the working folder
    const InputList input = list_of({{clip_name(12), Origin::kNamed}});
    run(model, input, options, sink);
    CHECK(heard == expected_caption(12));
    CHECK(num_pieces > 3);
    heard.clear();
    options.stop_strings = {"2 13 1", "nothing"};
    run(model, input, options, sink);
    CHECK(heard == "1");
    CHECK(sink.kept.at(1).caption == "1");
    CHECK(sink.kept.at(1).status == records::Status::kOk);
    CHECK(sink.kept.at(1).finish_reason == "stop");
    CHECK(sink.kept.at(1).output_tokens == 3);
    heard.clear();
    options.stop_strings = {"13"};  // the space before it may belong to the caption
    run(model, input, options, sink);
    CHECK(heard == sink.kept.at(2).caption);
    CHECK(heard.ends_with("2"));
  }
}

}  // namespace
}  // namespace caption::pipeline
