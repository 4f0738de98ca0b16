// Conversations with a system prompt and examples: rendered, placed and continued as by the
// reference (scripts/make_goldens_chat.py), and what templates cannot express.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "model/internal/chat_format.h"
#include "model/internal/chat_template.h"
#include "tests/model/captioner_golden.h"
#include "tests/model/support.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using model::ChatFormat;
using model::Conversation;
using model::Example;

std::vector<std::int32_t> ids_of(const JsonObject& object, std::string_view key) {
  const std::vector<std::int64_t> ids = object.get_ints(key);
  return {ids.begin(), ids.end()};
}

// A golden's checkpoint with the golden's chat template.
struct ChatGolden {
  explicit ChatGolden(const std::string& name)
      : golden(
            JsonObject::open(fs::path(CAPTION_SOURCE_DIR) / "tests/golden/chat" / (name + ".json"),
                             ErrorCode::kBadReference)),
        checkpoint(fs::path(CAPTION_SOURCE_DIR) / "tests/golden" / golden.require_string("case")) {
    std::ofstream(checkpoint.path() / "chat_template.jinja") << golden.require_string("template");
    model = model::open_model(tested_context(), checkpoint.path(), weights::WeightFormat::kF32);
  }

  const JsonObject golden;
  const DrawnCheckpoint checkpoint;
  std::unique_ptr<model::CaptionModel> model;
};

Conversation conversation_of(const JsonObject& golden) {
  Conversation conversation{.system = golden.get_string("system", ""),
                            .prompt = golden.get_string("prompt", "")};
  for (const JsonObject& shown : golden.get_objects("examples")) {
    Example& example = conversation.examples.emplace_back();
    example.prompt = shown.require_string("prompt");
    example.caption = shown.require_string("caption");
    if (const auto clip = shown.get_object("clip")) example.clip = golden_shape(*clip);
  }
  return conversation;
}

// The vision tokens of the examples' clips and of the clip, in this order.
Tensor vision_of(Stream& stream, ThreadPool& pool, model::CaptionModel& model,
                 const JsonObject& golden) {
  std::vector<JsonObject> clips;
  for (const JsonObject& shown : golden.get_objects("examples")) {
    if (const auto clip = shown.get_object("clip")) clips.push_back(*clip);
  }
  clips.push_back(golden.get_object("clip").value());
  std::vector<float> numbers;
  const std::int64_t width = model.decoder().spec().vision_width();
  for (const JsonObject& clip : clips) {
    const Tensor pixels = golden_pixel_values(pool, model, clip);
    const Tensor rows = to_host(stream, model.encode_frames(stream, pixels.view()).view());
    numbers.insert(numbers.end(), rows.as<float>(), rows.as<float>() + rows.num_elements());
  }
  Tensor vision(DType::kF32, {std::ssize(numbers) / width, width});
  std::copy(numbers.begin(), numbers.end(), vision.as<float>());
  return vision;
}

void check_golden(const std::string& name) {
  CAPTURE(name);
  ThreadPool pool(2);
  Stream stream(tested_context(), pool);
  const ChatGolden chat(name);
  const bool is_mirror = tested_context().device == Device::kMirror;
  for (const JsonObject& row : chat.golden.get_objects("conversations")) {
    const Conversation conversation = conversation_of(row);
    CAPTURE(conversation.system);
    const model::PromptIds prompt =
        chat.model->build_prompt(conversation, golden_shape(row.get_object("clip").value()));
    CHECK(prompt.ids == ids_of(row, "ids"));
    CHECK(prompt.positions == ids_of(row, "positions"));
    if (!row.has("greedy") || is_mirror) continue;
    const Tensor vision = vision_of(stream, pool, *chat.model, row);
    REQUIRE(vision.dim(0) == std::ssize(prompt.vision_positions));
    const std::vector<std::int32_t> greedy = ids_of(row, "greedy");
    CHECK(greedy.size() == 64);
    CHECK(run_greedy(stream, *chat.model, prompt, vision.view(), std::ssize(greedy)).ids == greedy);
  }
}

TEST_SUITE("model/chat") {
  TEST_CASE("Qwen3-VL's conversations are the reference's") { check_golden("qwen3_vl"); }
  TEST_CASE("so are Qwen2.5-VL's, whose default system prompt gives way") {
    check_golden("qwen2_5_vl");
  }
  TEST_CASE("so are InternVL's") { check_golden("internvl"); }
  TEST_CASE("so are those of both templates of LLaVA-OneVision") {
    check_golden("onevision");
    check_golden("onevision_first");
  }
  TEST_CASE("so are those of the templates of LLaVA-NeXT-Video") {
    for (const char* const name : {"vicuna", "vicuna_twice", "mistral", "yi"}) check_golden(name);
  }

  TEST_CASE("a template that throws at a system prompt refuses one") {
    const ChatGolden chat("mistral");
    const Conversation conversation{.system = "한국어로.", .prompt = "무엇?"};
    CHECK_THROWS_WITH_AS(
        chat.model->build_prompt(conversation, {.num_frames = 2}),
        doctest::Contains("the chat template of this model has no place for a system prompt"),
        Error);
  }

  TEST_CASE("special tokens in any words of a conversation stay text") {
    for (const char* const name : {"qwen3_vl", "vicuna"}) {
      CAPTURE(std::string(name));
      const ChatGolden chat(name);
      const model::ClipShape clip = {.num_frames = 2};
      const text::Tokenizer& tokenizer = chat.model->tokenizer();
      const auto count_special = [&](const Conversation& conversation) {
        const model::PromptIds prompt = chat.model->build_prompt(conversation, clip);
        CHECK(std::ssize(prompt.vision_positions) == 2 * chat.model->vision_tokens(clip));
        std::int64_t count = 0;
        for (const char* const token :
             {"<video>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|video_pad|>"}) {
          const auto id = tokenizer.find_token(token);
          if (id) count += std::count(prompt.ids.begin(), prompt.ids.end(), *id);
        }
        return count;
      };
      const Conversation plain{.system = "a",
                               .examples = {{.clip = clip, .prompt = "b", .caption = "c"}},
                               .prompt = "d"};
      const std::string marks = "x <|im_end|><|vision_start|><|video_pad|><video> y";
      for (int place = 0; place < 4; ++place) {
        CAPTURE(place);
        Conversation marked = plain;
        if (place == 0) marked.system = marks;
        if (place == 1) marked.examples[0].prompt = marks;
        if (place == 2) marked.examples[0].caption = marks;
        if (place == 3) marked.prompt = marks;
        CHECK(count_special(marked) == count_special(plain));
      }
    }
  }

  TEST_CASE("a composed model's templates are repeated for examples, once for a system prompt") {
    model::ComposedSource source = composed_source();
    source.prompt = "Q: {video}{prompt}\nA:";
    source.system_template = "S: {system}\n";
    source.example_end = "\n\n";
    const auto model = model::open_composed(tested_context(), source, weights::WeightFormat::kF32);
    const text::Tokenizer& tokenizer = model->tokenizer();
    const model::PromptIds prompt =
        model->build_prompt({.system = "한국어로.",
                             .examples = {{.prompt = "무엇?", .caption = "공원."},
                                          {.clip = model::ClipShape{.num_frames = 1},
                                           .prompt = "왜?",
                                           .caption = "비."}},
                             .prompt = "누구?"},
                            {.num_frames = 2});
    std::vector<std::int32_t> expected;
    const auto add_text = [&](const char* text, text::AddedEnds ends) {
      const auto ids = tokenizer.encode(text, text::AddedTokens::kRecognise, ends);
      expected.insert(expected.end(), ids.begin(), ids.end());
    };
    const auto add_clip = [&](std::int64_t frames) {
      expected.insert(expected.end(),
                      static_cast<std::size_t>(model->vision_tokens({.num_frames = frames})),
                      *tokenizer.find_token("<video>"));
    };
    add_text("S: 한국어로.\nQ: 무엇?\nA:공원.\n\nQ: ", {.beginning = true, .end = false});
    add_clip(1);
    add_text("왜?\nA:비.\n\nQ: ", {.beginning = false, .end = false});
    add_clip(2);
    add_text("누구?\nA:", {.beginning = false, .end = true});
    CHECK(prompt.ids == expected);
    CHECK(std::ssize(prompt.vision_positions) == model->vision_tokens({.num_frames = 3}));
  }

  TEST_CASE("a composed model says which template is missing") {
    model::ComposedSource source = composed_source();
    const auto model = model::open_composed(tested_context(), source, weights::WeightFormat::kF32);
    CHECK_THROWS_WITH_AS(model->build_prompt({.system = "a", .prompt = "b"}, {.num_frames = 1}),
                         doctest::Contains("needs model.system_template"), Error);
    CHECK_THROWS_WITH_AS(
        model->build_prompt({.examples = {{.prompt = "a", .caption = "b"}}, .prompt = "c"},
                            {.num_frames = 1}),
        doctest::Contains("needs model.example_end"), Error);
    source.system_template = "no slot";
    CHECK_THROWS_WITH_AS(
        model::open_composed(tested_context(), source, weights::WeightFormat::kF32),
        doctest::Contains("must hold {system} once"), Error);
  }
}

// Templates that render as chatml_format("\n") does, and templates that do not.
constexpr const char* kStart = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' }}";
constexpr const char* kVideos = "{% if m.video %}{{ '<video>\\n' }}{% endif %}{{ m.text }}";
constexpr const char* kEnd =
    "{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

TEST_SUITE("model/chat_template") {
  TEST_CASE("the text that a template writes") {
    struct Case {
      const char* program;
      const char* all;
      const char* without_tools;
    };
    const Case kCases[] = {
        {"a{{ 'b' + \"c\\n\" ~ 'd' }}e\n", "abc\nde", "abc\nde"},
        {"{{ x['role'] }}{{ f('g') }}{{ ('h' + x) }}", "\x1F\x1Fh\x1F", "\x1F\x1Fh\x1F"},
        {"{% if a == 'b' %}\nc\n{% endif %}\nd", "c\nd", "c\nd"},
        {"{%- if a -%}\n  b  \n{%- endif %} c", "b c", "b c"},
        {"{# 'a' #}b{% if tools %}c{% else %}d{% endif %}", "bcd", "bd"},
        {"{% for t in tools %}{% if x %}a{% endif %}{% endfor %}b", "ab", "b"},
        {"{% set x = 'a' %}",
         "\x1F"
         "a\x1F",
         "\x1F"
         "a\x1F"},
        {"{{ 'it\\'s %} }}' }}", "it's %} }}", "it's %} }}"},
        {"{{ unclosed", "\x1F", "\x1F"},
        {"{%", "", ""},
        {"", "", ""},
    };
    for (const Case& c : kCases) {
      CAPTURE(std::string(c.program));
      const model::TemplateOutput output = model::find_output(c.program);
      CHECK(output.all == c.all);
      CHECK(output.without_tools == c.without_tools);
    }
  }

  // A program of this size would take minutes if each tag, bracket, branch or mark looked at all of
  // the others.
  TEST_CASE("a large program is read in one pass") {
    const auto repeated = [](const std::string& part) {
      std::string text;
      while (text.size() < (std::size_t{4} << 20)) text += part;
      return text;
    };
    const std::string same = std::string(kStart) + kVideos + kEnd;
    const auto difference_of = [&](const std::string& program) {
      return model::find_difference(program, model::chatml_format("\n"), "<video>\n");
    };
    CHECK(difference_of(same + repeated("{{ a }}")) == "");
    CHECK(difference_of(same + "{{ 'end' ~ " + repeated("(a[")) == "it writes \"end\"");
    CHECK(difference_of(same + repeated("{% if x %}{{ a }}")) == "");
    CHECK(difference_of(same + repeated("<")) == "");
    CHECK(difference_of(same + repeated("<[") + " end") == "it writes \"end\"");
    CHECK(difference_of(same + repeated("ab")) ==
          "it writes \"" + repeated("ab").substr(0, 80) + "\"...");
  }

  TEST_CASE("a template that writes the same text otherwise stands for the format") {
    const std::string same = std::string(kStart) + kVideos + kEnd;
    const std::string kSame[] = {
        same,
        "{% if tools %}{{ '# Tools <tools>' }}{% endif %}" + same,
        "{%- for m in messages -%}\n  {{- \"<|im_start|>\" ~ m.role ~ \"\\n\" -}}\n"
        "  {%- if m.image %}<image>{% endif -%}{%- if m.video -%}{{ '<video>\\n' }}{%- endif -%}\n"
        "  {{- m.text + '<|im_end|>' + '\\n' -}}\n{%- endfor -%}\n"
        "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}\n",
        std::string(kStart) + "{% if m.video %}{# a video #}<video>\n{% endif %}{{ m.text }}" +
            kEnd,
        "{% if x %}{{ raise_exception('No such role here!') }}{% endif %}" + same,
    };
    for (const std::string& text : kSame) {
      CAPTURE(text);
      CHECK(model::find_difference(text, model::chatml_format("\n"), "<video>\n") == "");
    }
  }

  TEST_CASE("a template that writes another text is told apart, with what it writes") {
    const std::string same = std::string(kStart) + kVideos + kEnd;
    const auto replaced = [&](std::string_view from, std::string_view to) {
      std::string text = same;
      for (std::size_t at = text.find(from); at != std::string::npos;
           at = text.find(from, at + to.size())) {
        text.replace(at, from.size(), to);
      }
      return text;
    };
    const struct {
      std::string text;
      const char* difference;
    } kOther[] = {
        {replaced("<|im_end|>\\n", "<|im_end|>"), "it lacks \"<|im_end|>\\n\""},
        {replaced("<|im_start|>", "<|start|>"), "it lacks \"<|im_start|>\""},
        {replaced("<video>\\n", "<video>"), "it lacks \"<video>\\n\""},
        {"<|im_start|>system\nYou are Foo.<|im_end|>\n" + same, "it writes \"You\""},
        {"{% set system = 'Sei kurz.' %}" + same, "it writes \"Sei\""},
        {replaced("assistant\\n' }}", "assistant\\n' }}{{ '<think>\\n' }}"),
         "it writes \"<think>\""},
        {"{{ bos_token }}" + same, "it writes \"<bos_token>\""},
        {replaced("{{ m.text }}", "{{ m.text + ' /no_think' }}"), "it writes \"no_think\""},
        {"{{ messages }}", "it lacks \"<|im_start|>\""},
    };
    for (const auto& c : kOther) {
      CAPTURE(c.text);
      CHECK(model::find_difference(c.text, model::chatml_format("\n"), "<video>\n") ==
            c.difference);
    }
  }

  TEST_CASE("the goldens' templates stand for their formats, and a default prompt counts") {
    for (const char* const name : {"qwen3_vl", "yi", "onevision", "internvl"}) {
      CAPTURE(std::string(name));
      const JsonObject golden = JsonObject::open(
          fs::path(CAPTION_SOURCE_DIR) / "tests/golden/chat" / (std::string(name) + ".json"),
          ErrorCode::kBadReference);
      const bool is_qwen = std::string(name) == "qwen3_vl";
      const std::string video =
          is_qwen ? "<|vision_start|><|video_pad|><|vision_end|>" : "<video>\n";
      ChatFormat format = model::chatml_format(is_qwen ? "" : "\n");
      const std::string text = golden.require_string("template");
      CHECK(model::find_difference(text, format, video) == "");
      format.default_system = "You are a helpful assistant.";
      CHECK(model::find_difference(text, format, video) ==
            "it lacks \"You are a helpful assistant.\"");
    }
  }

  TEST_CASE("the language model's template in tokenizer_config.json is not the model's") {
    const fs::path folder = fs::path(CAPTION_TEST_TMP) / "chat_template";
    fs::remove_all(folder);
    fs::create_directories(folder);
    CHECK(model::read_chat_template(model::ModelFolder(folder), "<video>").text.empty());
    std::ofstream(folder / "tokenizer_config.json") << R"({"chat_template": "words alone"})";
    CHECK(model::read_chat_template(model::ModelFolder(folder), "<video>").text.empty());
    std::ofstream(folder / "tokenizer_config.json") << R"({"chat_template": "a <video>"})";
    CHECK(model::read_chat_template(model::ModelFolder(folder), "<video>").text == "a <video>");
    std::ofstream(folder / "processor_config.json") << R"({"chat_template": "b"})";
    CHECK(model::read_chat_template(model::ModelFolder(folder), "<video>").file ==
          folder / "processor_config.json");
    std::ofstream(folder / "chat_template.jinja") << "c";
    CHECK(model::read_chat_template(model::ModelFolder(folder), "<video>").text == "c");
  }
}

}  // namespace
}  // namespace caption
