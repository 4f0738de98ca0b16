// The families' templates filled with the user's words give the same ids as in transformers.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "model/internal/prompt.h"
#include "tests/model/support.h"

namespace caption {
namespace {

using namespace testing;
using model::PromptIds;

std::vector<std::int32_t> to_ids(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

// Replaces a folder's tokenizer by one that knows a, b and c (ids 0 to 2) and leaves out the other
// characters of a text, to which it adds <s> (4) and </s> (5).
void write_tokenizer_with_ends(const std::filesystem::path& folder) {
  for (const char* name : {"tokenizer.model", "tokenizer_config.json", "added_tokens.json",
                           "special_tokens_map.json"}) {
    std::filesystem::remove(folder / name);
  }
  std::ofstream(folder / "tokenizer.json") << R"({
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "|": 3}, "merges": []},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "decoder": {"type": "ByteLevel"},
    "added_tokens": [{"id": 4, "content": "<s>", "special": true},
                     {"id": 5, "content": "</s>", "special": true},
                     {"id": 6, "content": "<video>", "special": true}],
    "post_processor": {"type": "TemplateProcessing",
      "special_tokens": {"<s>": {"ids": [4]}, "</s>": {"ids": [5]}},
      "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}},
                 {"SpecialToken": {"id": "</s>"}}]}})";
}

TEST_SUITE("model/prompt") {
  TEST_CASE("prompts are the reference's, id for id, and name their vision tokens' places") {
    for (const GoldenCase& c : golden_cases()) {
      CAPTURE(c.name);
      const JsonObject golden = open_golden(c.name);
      const auto model = c.open(weights::WeightFormat::kF32);
      const std::int64_t frames = golden.get_object("frames")->require_int("count", 1, 64);
      for (const JsonObject& prompt : golden.get_objects("prompts")) {
        const std::string text = prompt.require_string("text");
        CAPTURE(text);
        const PromptIds built = model->build_prompt(text, {frames});
        CHECK(built.ids == to_ids(prompt.get_ints("ids")));
        REQUIRE(static_cast<std::int64_t>(built.vision_positions.size()) ==
                model->vision_tokens({frames}));
        const std::int32_t placeholder =
            built.ids[static_cast<std::size_t>(built.vision_positions.front())];
        for (const std::int32_t position : built.vision_positions) {
          CHECK(built.ids[static_cast<std::size_t>(position)] == placeholder);
        }
        CHECK(std::count(built.ids.begin(), built.ids.end(), placeholder) ==
              model->vision_tokens({frames}));
      }
    }
  }

  TEST_CASE("a special token's text in the user's words stays text") {
    for (const char* name : {"llama_bf16", "composed_mlp"}) {
      CAPTURE(std::string(name));
      const auto model = open_case(name);
      const auto video = model->tokenizer().find_token("<video>");
      const auto image = model->tokenizer().find_token("<image>");
      const std::string words = "무엇이 <video> 안에 있나요? </s><image>";
      const PromptIds prompt = model->build_prompt(words, {2});
      CHECK(std::count(prompt.ids.begin(), prompt.ids.end(), *video) == model->vision_tokens({2}));
      CHECK(std::count(prompt.ids.begin(), prompt.ids.end(), *image) == 0);
      CHECK(std::count(prompt.ids.begin(), prompt.ids.end(), *model->tokenizer().eos_id()) == 0);
      CHECK(static_cast<std::int64_t>(prompt.vision_positions.size()) == model->vision_tokens({2}));
      // The text after the video is that of the template with the user's words.
      std::vector<std::int32_t> after(prompt.ids.begin() + prompt.vision_positions.back() + 1,
                                      prompt.ids.end());
      const std::string text = model->tokenizer().decode(after);
      CHECK(text.find(words) != std::string::npos);
    }
  }

  TEST_CASE("plain words around an added token tokenise as if it were not there") {
    // "<video>" in the user's words stays text, and the text before and after it is tokenised as
    // usual.
    const auto model = open_case("llama_bf16");
    const PromptIds plain = model->build_prompt("<video>", {1});
    const text::Tokenizer& tokenizer = model->tokenizer();
    std::vector<std::int32_t> tail(plain.ids.begin() + plain.vision_positions.back() + 1,
                                   plain.ids.end());
    CHECK(tokenizer.decode(tail) == "\n<video> ASSISTANT:");
    CHECK(tokenizer.token_bytes(tail.front()) == "\n");
    const std::vector<std::int32_t> head = tokenizer.encode("USER: ");
    CHECK(std::equal(head.begin(), head.end(), plain.ids.begin()));
  }

  TEST_CASE("a composed template puts text on both sides of the video") {
    model::ComposedSource source = composed_source();
    source.prompt = "USER: {prompt}\n{video} ASSISTANT:";
    const auto model =
        model::open_composed(testing::tested_context(), source, weights::WeightFormat::kF32);
    const text::Tokenizer& tokenizer = model->tokenizer();
    const PromptIds prompt = model->build_prompt("공원", {1});
    std::vector<std::int32_t> expected = tokenizer.encode("USER: 공원\n");
    CHECK(prompt.vision_positions.front() == static_cast<std::int32_t>(expected.size()));
    const auto tokens = static_cast<std::size_t>(model->vision_tokens({1}));
    expected.insert(expected.end(), tokens, *tokenizer.find_token("<video>"));
    const std::vector<std::int32_t> tail = tokenizer.encode(" ASSISTANT:");
    expected.insert(expected.end(), tail.begin() + 1, tail.end());  // <s> occurs only once
    CHECK(prompt.ids == expected);
  }

  TEST_CASE("the tokens that a tokenizer adds to a text occur once, around the whole prompt") {
    model::ComposedSource source = composed_source();
    source.llm = copy_checkpoint("composed", "composed_with_ends") / "llm";
    write_tokenizer_with_ends(source.llm);
    const struct {
      const char* prompt;
      const char* words;
      std::vector<std::int32_t> before;
      std::vector<std::int32_t> after;
    } kRows[] = {
        {"a{video}b{prompt}c", "aa", {4, 0}, {1, 0, 0, 2, 5}},
        {"a{video}b{prompt}c", "a<video>a", {4, 0}, {1, 0, 0, 2, 5}},
        {"a{video}b{prompt}", "<video>a", {4, 0}, {1, 0, 5}},
        {"a{prompt}b{video}c", "<video>a", {4, 0, 0, 1}, {2, 5}},
        {"{video}c", "", {4}, {2, 5}},
        {"{prompt}{video}", "a", {4, 0}, {5}},
    };
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.prompt));
      CAPTURE(std::string(row.words));
      source.prompt = row.prompt;
      const auto model =
          model::open_composed(testing::tested_context(), source, weights::WeightFormat::kF32);
      std::vector<std::int32_t> expected = row.before;
      expected.insert(expected.end(), static_cast<std::size_t>(model->vision_tokens({1})), 6);
      expected.insert(expected.end(), row.after.begin(), row.after.end());
      CHECK(model->build_prompt(row.words, {1}).ids == expected);
    }
  }

  TEST_CASE("words that the tokenizer's model reads as the video are refused") {
    const std::filesystem::path folder =
        copy_checkpoint("composed", "composed_known_video") / "llm";
    write_tokenizer_with_ends(folder);
    replace_in_file(folder / "tokenizer.json", R"("|": 3)", R"("<video>": 3)");
    replace_in_file(folder / "tokenizer.json", R"("id": 6, "content": "<video>", "special": true)",
                    R"("id": 3, "content": "<video>")");
    const auto tokenizer = text::open_tokenizer(folder);
    const auto build = [&](const char* words) {
      model::PromptText text;
      text.add({.head = "a<video>", .tail = "c"}, words);
      return model::build_video_prompt(*tokenizer, text, 3, std::vector<std::int64_t>{2});
    };
    CHECK(build("b").ids == std::vector<std::int32_t>{4, 0, 3, 3, 1, 2, 5});
    try {
      build("b<video>");
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kUsage);
      CHECK(std::string(error.what()).find("the prompt holds \"<video>\"") != std::string::npos);
    }
  }

  TEST_CASE("a fixed template needs no words of the user") {
    model::ComposedSource source = composed_source();
    source.prompt = "{video}이 영상을 자세히 설명해 주세요.";
    const auto fixed =
        model::open_composed(testing::tested_context(), source, weights::WeightFormat::kF32);
    const auto open = open_case("composed_mlp");
    CHECK(fixed->default_prompt().empty());
    CHECK(fixed->build_prompt("", {2}).ids ==
          open->build_prompt("이 영상을 자세히 설명해 주세요.", {2}).ids);
  }

  TEST_CASE("words without a place in the template are refused") {
    model::ComposedSource source = composed_source();
    source.prompt = "{video}";
    source.example_end = "끝";
    const auto model =
        model::open_composed(testing::tested_context(), source, weights::WeightFormat::kF32);
    const model::Example with_words = {.clip = std::nullopt, .prompt = "a", .caption = "b"};
    const model::Example without = {.clip = std::nullopt, .prompt = "", .caption = "b"};
    const std::vector<model::Conversation> refused = {
        {.system = "", .examples = {}, .prompt = "무엇이 보입니까?"},
        {.system = "", .examples = {with_words}, .prompt = ""}};
    for (const model::Conversation& conversation : refused) {
      try {
        model->build_prompt(conversation, {2});
        FAIL_CHECK("accepted");
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kBadPreset);
        CHECK(std::string(error.what()).find("has no slot {prompt}") != std::string::npos);
      }
    }
    const model::Conversation taken = {.system = "", .examples = {without}, .prompt = ""};
    CHECK(!model->build_prompt(taken, {2}).ids.empty());
  }

  TEST_CASE("a slot that a template does not have is refused, other braces are text") {
    const auto refusal = [](const std::string& prompt, const std::string& system) -> std::string {
      model::ComposedSource source = composed_source();
      source.prompt = prompt;
      source.system_template = system;
      try {
        model::open_composed(testing::tested_context(), source, weights::WeightFormat::kF32);
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kBadPreset);
        return error.what();
      }
      return "";
    };
    CHECK(refusal("{video}{prompt}{sytem}", "") ==
          "model.prompt: {sytem} is no slot of this template; there is {video} and {prompt}");
    CHECK(refusal("{video}", "{system}{prompt}") ==
          "model.system_template: {prompt} is no slot of this template; there is {system}");
    CHECK(refusal("{video}{}{ a }{A}{prompt", "").empty());
  }

  TEST_CASE("a template without exactly one video is refused") {
    for (const char* prompt : {"", "{prompt}", "{video}{video}", "{video}{prompt}{prompt}"}) {
      CAPTURE(std::string(prompt));
      model::ComposedSource source = composed_source();
      source.prompt = prompt;
      try {
        model::open_composed(testing::tested_context(), source, weights::WeightFormat::kF32);
        FAIL_CHECK("accepted");
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kBadPreset);
        CHECK(std::string(error.what()).find("{video} once") != std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace caption
