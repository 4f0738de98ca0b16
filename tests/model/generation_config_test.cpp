#include "model/generation_config.h"

#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/model/support.h"

namespace caption {
namespace {

namespace fs = std::filesystem;
using model::GenerationConfig;

GenerationConfig read(const std::string& json) {
  const fs::path folder = fs::path(CAPTION_TEST_TMP) / "generation";
  fs::create_directories(folder);
  std::ofstream(folder / "generation_config.json") << json;
  return model::read_generation_config(folder);
}

TEST_SUITE("model/generation_config") {
  TEST_CASE("a folder without the file says nothing") {
    const GenerationConfig config = model::read_generation_config(testing::golden_folder());
    CHECK(config.file.empty());
    CHECK_FALSE(config.do_sample.has_value());
    CHECK(config.eos_ids.empty());
  }

  TEST_CASE("every key that is known is read") {
    const GenerationConfig config = read(
        R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 20,
            "repetition_penalty": 1.05, "no_repeat_ngram_size": 3, "num_beams": 4,
            "length_penalty": -1.5, "early_stopping": "never", "min_new_tokens": 5,
            "max_new_tokens": 300, "eos_token_id": [7, 2, 7], "pad_token_id": 0,
            "transformers_version": "4.57.6"})");
    CHECK(config.do_sample == true);
    CHECK(config.temperature == 0.6);
    CHECK(config.top_p == 0.9);
    CHECK(config.top_k == 20);
    CHECK(config.repetition_penalty == 1.05);
    CHECK(config.no_repeat_ngram_size == 3);
    CHECK(config.num_beams == 4);
    CHECK(config.length_penalty == -1.5);
    CHECK(config.early_stopping == sampling::EarlyStopping::kNever);
    CHECK(config.min_new_tokens == 5);
    CHECK(config.max_new_tokens == 300);
    CHECK(config.eos_ids == std::vector<std::int32_t>{7, 2});
    CHECK(config.unsupported.empty());
  }

  TEST_CASE("null says nothing, but of top_k that all tokens count") {
    const GenerationConfig config =
        read(R"({"temperature": null, "top_p": null, "top_k": null, "max_new_tokens": null})");
    CHECK_FALSE(config.temperature.has_value());
    CHECK_FALSE(config.top_p.has_value());
    CHECK(config.top_k == 0);
    CHECK_FALSE(config.max_new_tokens.has_value());
    CHECK_FALSE(read("{}").top_k.has_value());
    CHECK(read(R"({"early_stopping": true})").early_stopping == sampling::EarlyStopping::kYes);
  }

  TEST_CASE("a file that allows captions of any length allows the longest one") {
    CHECK(read(R"({"max_new_tokens": 65536})").max_new_tokens == 65536);
    CHECK(read(R"({"max_new_tokens": 131072})").max_new_tokens == 65536);
    CHECK(read(R"({"max_new_tokens": 9223372036854775807})").max_new_tokens == 65536);
  }

  TEST_CASE("what this build cannot do is named, unless it is off") {
    CHECK(read(R"({"min_p": 0.05, "suppress_tokens": [5], "typical_p": 0.9})").unsupported ==
          std::vector<std::string>{"min_p", "suppress_tokens", "typical_p"});
    CHECK(read(R"({"min_p": 0.0, "suppress_tokens": null, "typical_p": 1.0})").unsupported.empty());
  }

  TEST_CASE("a value out of its range is refused with file and key") {
    struct Case {
      const char* json;
      const char* key;
    };
    const Case kCases[] = {
        {R"({"temperature": -0.1})", "temperature is -0.1"},
        {R"({"do_sample": true, "temperature": 0})", "temperature is 0"},
        {R"({"temperature": "hot"})", "temperature"},
        {R"({"top_p": 1.5})", "top_p is 1.5"},
        {R"({"top_k": -1})", "top_k"},
        {R"({"repetition_penalty": 0})", "repetition_penalty is 0"},
        {R"({"num_beams": 0})", "num_beams"},
        {R"({"early_stopping": "sometimes"})", "early_stopping"},
        {R"({"early_stopping": 3})", "early_stopping"},
        {R"({"max_new_tokens": 0})", "max_new_tokens"},
        {R"({"min_new_tokens": -5})", "min_new_tokens"},
        {R"({"do_sample": 1})", "do_sample"},
        {R"({"eos_token_id": -1})", "eos_token_id"},
    };
    for (const Case& c : kCases) {
      CAPTURE(std::string(c.json));
      try {
        read(c.json);
        FAIL_CHECK("accepted");
      } catch (const Error& error) {
        const std::string what = error.what();
        CAPTURE(what);
        CHECK(error.code() == ErrorCode::kBadModel);
        CHECK(what.find("generation_config.json: ") != std::string::npos);
        CHECK(what.find(c.key) != std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace caption
