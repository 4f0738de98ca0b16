// Adapters that clips of a list and prompts choose.
#include "pipeline/adapters.h"

#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "fake_model.h"
#include "pipeline/find_videos.h"

namespace caption::pipeline {
namespace {

namespace fs = std::filesystem;
using records::Record;

Options options_with_adapters(FakeModel& model) {
  model.number_of_adapters = 2;
  Options options = fake_options();
  options.adapters = {{.name = "sports", .page_identity = {1, 1}},
                      {.name = "news", .page_identity = {1, 2}}};
  options.engine.prefix_cache = engine::PrefixCache::kOn;
  options.engine.page_identity = {1, 0};
  return options;
}

const Record& find_record(const KeepingSinkBase& sink, const std::string& video,
                          const std::string& prompt = "") {
  const auto it = std::find_if(sink.kept.begin(), sink.kept.end(), [&](const Record& record) {
    return record.video == video && record.prompt == prompt;
  });
  REQUIRE(it != sink.kept.end());
  return *it;
}

// The lines of a list, as a descriptor.
class ListFile {
 public:
  explicit ListFile(const std::string& text) {
    const fs::path path = fs::path(CAPTION_TEST_TMP) / "adapter_list";
    write_file(path, text);
    file_ = std::fopen(path.c_str(), "rb");
  }
  ~ListFile() { std::fclose(file_); }
  PathList list(char separator = '\n') const {
    return {.descriptor = ::fileno(file_), .separator = separator, .adapters = {"sports", "news"}};
  }

 private:
  std::FILE* file_;
};

std::string refusal(const std::string& list) {
  const ListFile file(list);
  try {
    find_videos({"-"}, file.list());
    return {};
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUsage);
    return error.what();
  }
}

TEST_SUITE("pipeline/adapters") {
  TEST_CASE("each clip has the caption of its adapter, in one batch") {
    FakeModel model;
    const Options options = options_with_adapters(model);
    clips(30);  // makes the files and sets the working folder
    InputList inputs;
    for (int i = 0; i < 30; ++i) inputs.add(clip_name(i), Origin::kNamed, i % 3 - 1);
    KeepingSink sink;
    run(model, inputs, options, sink);
    REQUIRE(sink.kept.size() == 30);
    const char* const names[] = {"", "sports", "news"};
    for (int i = 0; i < 30; ++i) {
      const Record record = find_record(sink, clip_name(i));
      CHECK(record.adapter == names[i % 3]);
      CHECK(record.caption == expected_caption(i, kAdapterShift * (i % 3)));
    }
  }

  TEST_CASE("each prompt has the caption of its adapter, on the same vision tokens") {
    FakeModel model;
    int num_encoded = 0;
    model.on_encode = [&](int) { ++num_encoded; };
    Options options = options_with_adapters(model);
    options.prompts = {{.name = "a", .text = "+3"},
                       {.name = "b", .text = "+3", .adapter = "news"},
                       {.name = "c", .text = "+3", .adapter = "sports"}};
    KeepingSink sink;
    run(model, clips(5), options, sink);
    CHECK(num_encoded == 5);
    REQUIRE(sink.kept.size() == 15);
    for (int i = 0; i < 5; ++i) {
      CHECK(find_record(sink, clip_name(i), "a").caption == expected_caption(i, 3));
      CHECK(find_record(sink, clip_name(i), "a").adapter.empty());
      CHECK(find_record(sink, clip_name(i), "b").caption ==
            expected_caption(i, 3 + 2 * kAdapterShift));
      CHECK(find_record(sink, clip_name(i), "b").adapter == "news");
      CHECK(find_record(sink, clip_name(i), "c").caption == expected_caption(i, 3 + kAdapterShift));
    }
  }

  TEST_CASE("files of one content have a caption for each adapter") {
    FakeModel model;
    Options options = options_with_adapters(model);
    clips(1);
    for (const char* const name : {"twin_a", "twin_b"}) write_file(name, "same");
    options.read_clip = [](const OpenFile& file, const video::ReadOptions& how) {
      const fs::path own = file.path().parent_path() / clip_name(0);
      return make_clip(OpenFile(own), how);
    };
    InputList inputs;
    inputs.add("twin_a", Origin::kNamed, 0);
    inputs.add("twin_b", Origin::kNamed, 1);
    KeepingSink sink;
    run(model, inputs, options, sink);
    REQUIRE(sink.kept.size() == 2);
    CHECK(find_record(sink, "twin_a").caption == expected_caption(0, kAdapterShift));
    CHECK(find_record(sink, "twin_b").caption == expected_caption(0, 2 * kAdapterShift));
    CHECK(find_record(sink, "twin_a").copy_of.empty());
    CHECK(find_record(sink, "twin_b").copy_of.empty());
  }

  TEST_CASE("the output is asked for the caption of prompt and adapter") {
    class FullSink final : public KeepingSinkBase {
     public:
      records::Earlier find(const records::ClipIdentity&, const std::string&,
                            std::string_view caption) override {
        const bool is_known = caption == records::caption_key("a", "news");
        return {.kind =
                    is_known ? records::Earlier::Kind::kFinished : records::Earlier::Kind::kNone};
      }
    };
    FakeModel model;
    Options options = options_with_adapters(model);
    options.prompts = {{.name = "a", .text = ""}, {.name = "b", .text = ""}};
    clips(2);
    InputList inputs;
    inputs.add(clip_name(0), Origin::kNamed, 0);
    inputs.add(clip_name(1), Origin::kNamed, 1);
    FullSink sink;
    const Outcome outcome = run(model, inputs, options, sink);
    CHECK(outcome.progress.clips_found == 1);
    CHECK(sink.kept.size() == 3);
  }

  TEST_CASE("a choice that cannot be made is refused before anything is read") {
    FakeModel model;
    Options options = options_with_adapters(model);
    KeepingSink sink;
    options.prompts = {{.name = "a", .text = "", .adapter = "sport"}};
    CHECK_THROWS_WITH_AS(run(model, clips(1), options, sink),
                         doctest::Contains("prompt \"a\": no adapter is named \"sport\"; there are "
                                           "sports, news; did you mean sports?"),
                         Error);
    options.prompts = {{.name = "a", .text = "", .adapter = "sports"}};
    clips(1);
    InputList inputs;
    inputs.add(clip_name(0), Origin::kNamed, 1);
    CHECK_THROWS_WITH_AS(run(model, inputs, options, sink),
                         doctest::Contains("only one of the two can choose"), Error);
    CHECK(sink.kept.empty());
  }

  TEST_CASE("adapters that neither clips nor prompts choose are known") {
    FakeModel model;
    Options options = options_with_adapters(model);
    InputList inputs;
    inputs.add("a", Origin::kNamed);
    CHECK(unchosen_adapters(options, inputs) == std::vector<std::string>{"sports", "news"});
    inputs.add("b", Origin::kNamed, 1);
    CHECK(unchosen_adapters(options, inputs) == std::vector<std::string>{"sports"});
    options.prompts = {{.name = "p", .text = "x", .adapter = "sports"}};
    CHECK(unchosen_adapters(options, inputs).empty());
    CHECK(unchosen_adapters(fake_options(), InputList()).empty());
  }

  TEST_CASE("a line of JSON names a clip or a folder and its adapter") {
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "adapter_folder";
    fs::create_directories(folder / "inner");
    for (const char* const name : {"x.mp4", "inner/y.mp4"}) write_file(folder / name, "film");
    const ListFile file(
        "a.mp4\n"
        R"({"video": "b.mp4", "adapter": "news"})"
        "\n"
        R"( 	{ "video": "c 바다.mp4"} )"
        "\r\n{d}.mp4\n./{\"e\": 1}.mp4\n[f] g.mp4\n./[1]\n"
        R"({"adapter": "sports", "video": ")" +
        folder.string() + "\"}\nz.mp4\n");
    const FoundVideos found = find_videos({"-"}, file.list());
    const InputList& inputs = found.inputs;
    REQUIRE(inputs.size() == 10);
    CHECK(inputs.has_adapters());
    struct Case {
      std::string path;
      AdapterIndex adapter;
    };
    const Case cases[] = {{"a.mp4", kNoAdapter},
                          {"b.mp4", 1},
                          {"c 바다.mp4", kNoAdapter},
                          {"{d}.mp4", kNoAdapter},
                          {"./{\"e\": 1}.mp4", kNoAdapter},
                          {"[f] g.mp4", kNoAdapter},
                          {"./[1]", kNoAdapter},
                          {(folder / "inner/y.mp4").string(), 0},
                          {(folder / "x.mp4").string(), 0},
                          {"z.mp4", kNoAdapter}};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      CHECK(inputs.path(i) == cases[i].path);
      CHECK(inputs.adapter(i) == cases[i].adapter);
    }
    // Paths that end in NUL bytes are never JSON.
    const ListFile zeros(std::string("{\"a\": 1}.mp4\0", 13));
    CHECK(find_videos({"-"}, zeros.list('\0')).inputs.path(0) == "{\"a\": 1}.mp4");
  }

  TEST_CASE("a line of JSON that is wrong is refused with its number") {
    const struct {
      const char* line;
      const char* message;
    } kRows[] = {
        {R"({"video": "b.mp4", "adapter": "x"})", "no adapter is named \"x\""},
        {R"({"adaptor": "news"})", "unknown key \"adaptor\""},
        {R"({"video": ""})", "video: \"\" is no path"},
        {R"({"video": 3})", "video: expected a string"},
        {"{}", "video: is missing"},
        {" { } ", "video: is missing"},
        {R"(  {"video": "b.mp4")", "not valid JSON"},
        {"{'video': 'b.mp4'}", "not valid JSON"},
        {"{'b'}.mp4", "; a file whose name begins with {\" or {} is written ./{..."},
        {"[1]", "is a JSON list; a line is a path or {\"video\": PATH}"},
        {R"( ["b.mp4"])", "is a JSON list"},
        {R"({"video": "a.mp4", "adapter": "news"})", "a.mp4: named twice"},
    };
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.line));
      const std::string message = refusal("a.mp4\n\n" + std::string(row.line) + "\nc.mp4\n");
      CHECK(message.starts_with("standard input: line 3: "));
      CHECK(message.find(row.message) != std::string::npos);
    }
    CHECK(refusal(R"({"video": "a.mp4", "adapter": "news"})"
                  "\na.mp4\n")
              .starts_with("standard input: line 2: a.mp4: named twice"));
    CHECK(refusal(R"({"video": "a.mp4", "adapter": "new"})")
              .find("no adapter is named \"new\"; there are sports, news; did you mean news?") !=
          std::string::npos);
    CHECK(refusal(R"({"video": "a.mp4", "prompt": "x"})").find("unknown key \"prompt\"") !=
          std::string::npos);
    CHECK(refusal(R"({"adapter": "news"})").find("video: is missing") != std::string::npos);
    CHECK(refusal(R"({"video": ""})").find("is no path") != std::string::npos);
    CHECK(refusal(R"({"video": "a.mp4")").find("not valid JSON") != std::string::npos);
    CHECK(refusal("a.mp4\n"
                  R"({"video": "./a.mp4", "adapter": "news"})")
              .find("named twice, with different adapters") != std::string::npos);
    CHECK(refusal(R"({"video": "a.mp4", "adapter": "news"})"
                  "\n"
                  R"({"video": "./a.mp4", "adapter": "news"})")
              .empty());
  }
}

}  // namespace
}  // namespace caption::pipeline
