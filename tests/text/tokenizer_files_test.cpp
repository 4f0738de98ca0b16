// Valid and invalid contents of the files that accompany a tokenizer.model.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "text/internal/tokenizer_files.h"
#include "text/tokenizer.h"

namespace caption::text {
namespace {

namespace fs = std::filesystem;

// A new, empty model folder for each test case.
fs::path fresh_folder(const std::string& name) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string golden_model() {
  return read_text_file(CAPTION_SOURCE_DIR "/tests/golden/text/modern/tokenizer.model");
}

TokenizerConfig config_of(const std::string& tokenizer_config,
                          std::optional<std::string> tokenizer_json = std::nullopt) {
  TokenizerFiles files;
  files.folder = "m";
  files.tokenizer_config_json = tokenizer_config;
  files.tokenizer_json = std::move(tokenizer_json);
  return parse_tokenizer_config(files);
}

TEST_SUITE("text/tokenizer_files") {
  TEST_CASE("every key that names special tokens is read") {
    const auto special = [](const std::string& text) { return config_of(text).special_tokens; };
    const std::vector<std::string> kTokens = {"<a>", "<b>"};
    CHECK(special(R"({"eos_token": "<a>", "pad_token": {"content": "<b>"}})") == kTokens);
    CHECK(special(R"({"additional_special_tokens": ["<a>", {"content": "<b>"}]})") == kTokens);
    CHECK(special(R"({"extra_special_tokens": {"image": "<a>", "video": {"content": "<b>"}}})") ==
          kTokens);
    CHECK(special(R"({"extra_special_tokens": ["<a>", "<b>"]})") == kTokens);
    CHECK(special(R"({"extra_special_tokens": {}, "additional_special_tokens": []})").empty());
  }

  TEST_CASE("missing and foreign files are told apart") {
    const fs::path folder = fresh_folder("text_missing");
    CHECK_THROWS_WITH_AS(open_tokenizer(folder / "nowhere"),
                         doctest::Contains("there is no such model folder"), Error);
    CHECK_THROWS_WITH_AS(open_tokenizer(folder), doctest::Contains("has no tokenizer"), Error);
    write(folder / "vocab.json", "{}");
    CHECK_THROWS_WITH_AS(open_tokenizer(folder), doctest::Contains("has no tokenizer"), Error);
    write(folder / "tokenizer.json", "{}");
    CHECK_THROWS_WITH_AS(open_tokenizer(folder), doctest::Contains("tokenizer.json: model"), Error);
    fs::create_directories(folder / "tokenizer.model");
    try {
      open_tokenizer(folder);
      FAIL("a folder was opened as tokenizer.model");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kBadModel);
      CHECK(std::string(error.what()).find("is a folder") != std::string::npos);
    }
  }

  TEST_CASE("tokenizer.model alone is a whole tokenizer") {
    const fs::path folder = fresh_folder("text_alone");
    write(folder / "tokenizer.model", golden_model());
    const auto tokenizer = open_tokenizer(folder);
    CHECK(tokenizer->vocab_size() == 520);
    CHECK(tokenizer->encode("").front() == tokenizer->bos_id());
  }

  TEST_CASE("of two files that disagree tokenizer.json counts, as in transformers") {
    const fs::path folder = fresh_folder("disagree");
    const fs::path demo = CAPTION_SOURCE_DIR "/samples/demo-model";
    for (const char* name : {"tokenizer.model", "tokenizer_config.json", "tokenizer.json"}) {
      fs::copy(demo / name, folder / name);
    }
    CHECK(open_tokenizer(folder)->decode(std::vector<TokenId>{259, 260}) == "니다으로");
    std::string json = read_text_file(folder / "tokenizer.json");
    for (const auto& [from, to] : {std::pair{"\"니다\": 259", "\"니다\": 260"},
                                   std::pair{"\"으로\": 260", "\"으로\": 259"}}) {
      REQUIRE(json.find(from) != std::string::npos);
      json.replace(json.find(from), std::string(from).size(), to);
    }
    write(folder / "tokenizer.json", json);
    CHECK(open_tokenizer(folder)->decode(std::vector<TokenId>{259, 260}) == "으로니다");
  }

  TEST_CASE("broken configurations are refused by file and key") {
    const struct {
      const char* json;
      const char* message;
    } kRows[] = {
        {"{", "m/tokenizer_config.json: not valid JSON"},
        {"[]", "m/tokenizer_config.json: expected an object"},
        {R"({"legacy": "yes"})", "m/tokenizer_config.json: legacy: expected true or false"},
        {R"({"added_tokens_decoder": {"x": {"content": "a"}}})", "\"x\" is not a token id"},
        {R"({"added_tokens_decoder": {"-1": {"content": "a"}}})", "\"-1\" is not a token id"},
        {R"({"added_tokens_decoder": {"4294967296": {"content": "a"}}})", "is not a token id"},
        {R"({"added_tokens_decoder": {"7": {}}})", "added_tokens_decoder.7.content: is missing"},
        {R"({"added_tokens_decoder": {"7": "a"}})", "added_tokens_decoder.7: expected an object"},
        {R"({"added_tokens_decoder": {"7": null}})", "added_tokens_decoder.7: expected an object"},
        {R"({"bos_token": 1})", "bos_token: expected a string, found 1"},
    };
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.json));
      CHECK_THROWS_WITH_AS(config_of(row.json), doctest::Contains(row.message), Error);
    }
  }

  TEST_CASE("a token to add to every text must have an id") {
    const fs::path folder = fresh_folder("text_bos");
    write(folder / "tokenizer.model", golden_model());
    write(folder / "tokenizer_config.json", R"({"bos_token": "<|begin|>"})");
    CHECK_THROWS_WITH_AS(open_tokenizer(folder), doctest::Contains("bos_token \"<|begin|>\""),
                         Error);
    write(folder / "tokenizer_config.json",
          R"({"bos_token": "<|begin|>", "add_bos_token": false})");
    CHECK_FALSE(open_tokenizer(folder)->bos_id().has_value());
  }

  TEST_CASE("the space rule comes from tokenizer.json, then from `legacy`") {
    const std::string prepend =
        R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend"}]}})";
    const std::string first =
        R"({"normalizer": null, "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "first"}})";
    CHECK(config_of("{}").prefix_rule == PrefixRule::kEverySegmentAlways);
    CHECK(config_of(R"({"legacy": null})").prefix_rule == PrefixRule::kEverySegmentAlways);
    CHECK(config_of(R"({"legacy": false})").prefix_rule == PrefixRule::kFirstSegment);
    CHECK(config_of(R"({"legacy": false})", prepend).prefix_rule ==
          PrefixRule::kEverySegmentAlways);
    CHECK(config_of("{}", first).prefix_rule == PrefixRule::kFirstSegment);
    CHECK(config_of(R"({"add_prefix_space": true})", first).prefix_rule ==
          PrefixRule::kEverySegmentAlways);
    CHECK(config_of(R"({"add_prefix_space": false})").prefix_rule == PrefixRule::kNone);
    CHECK(config_of("{}", R"({"pre_tokenizer": {"type": "Metaspace"}})").prefix_rule ==
          PrefixRule::kEverySegment);
    CHECK(config_of("{}", R"({"normalizer": {"type": "NFC"}})").prefix_rule ==
          PrefixRule::kEverySegmentAlways);
  }

  TEST_CASE("tokenizer.json's added tokens count when the configuration lists none") {
    const std::string fast = R"({"added_tokens": [
        {"id": 9, "content": "<b>", "special": true, "normalized": true, "lstrip": true},
        {"id": 3, "content": "<a>"}, {"id": 3, "content": "<c>", "special": true}]})";
    const auto tokens = config_of("{}", fast).added_tokens;
    REQUIRE(tokens.size() == 2);  // ascending by id; the last of two entries for one id
    CHECK(tokens[0].content == "<c>");
    CHECK_FALSE(tokens[0].is_normalized);
    CHECK(tokens[1].content == "<b>");
    CHECK(tokens[1].is_normalized);
    CHECK(tokens[1].strips_left);
    CHECK(config_of(R"({"added_tokens_decoder": {}})", fast).added_tokens.empty());
    CHECK_THROWS_WITH_AS(config_of("{}", R"({"added_tokens": [{"content": "x"}]})"),
                         doctest::Contains("m/tokenizer.json: added_tokens[0].id: is missing"),
                         Error);
  }

  TEST_CASE("ids may have holes, which decode to nothing") {
    const fs::path folder = fresh_folder("text_holes");
    write(folder / "tokenizer.model", golden_model());
    write(folder / "tokenizer_config.json",
          R"({"added_tokens_decoder": {"600": {"content": "<video>", "special": true}}})");
    const auto tokenizer = open_tokenizer(folder);
    CHECK(tokenizer->vocab_size() == 601);
    CHECK(tokenizer->encode("<video>") == std::vector<TokenId>{1, 600});
    CHECK(tokenizer->decode(std::vector<TokenId>{550, 600}).empty());
  }
}

}  // namespace
}  // namespace caption::text
