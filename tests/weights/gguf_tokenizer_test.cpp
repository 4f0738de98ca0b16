// Tokenizers of GGUF files give the ids and texts of the reference for the tokenizer.json or the
// tokenizer.model that they were made of (scripts/make_goldens_gguf_tokenizers.py).
#include "weights/gguf_tokenizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer.h"
#include "weights/gguf_file.h"

namespace caption::weights {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldens = CAPTION_SOURCE_DIR "/tests/golden";

struct Case {
  const char* name;
  const char* folder;  // folder of the expected ids
};
constexpr Case kCases[] = {{"qwen2", "text_pipelines"},
                           {"llama3", "text_pipelines"},
                           {"gpt2", "text_pipelines"},
                           {"legacy", "text"}};

GgufFile open_file(const std::string& name) {
  return GgufFile::open(kGoldens / "gguf_tokenizers" / (name + ".gguf"));
}

std::vector<text::TokenId> ids_of(const JsonObject& row, const char* key) {
  std::vector<text::TokenId> ids;
  for (const std::int64_t id : row.get_ints(key)) ids.push_back(static_cast<text::TokenId>(id));
  return ids;
}

// The lists of a tokenizer of three bytes.
text::TokenTables small_tables() {
  text::TokenTables tables;
  tables.name = "f";
  tables.model = "gpt2";
  tables.pre = "gpt-2";
  tables.tokens = {"a", "b", "ab", "<x>"};
  tables.types = {1, 1, 1, 3};
  tables.merges = {"a b"};
  return tables;
}

// Returns the error message; "" when there is none.
std::string refusal(const text::TokenTables& tables, ErrorCode code) {
  try {
    text::make_tokenizer(tables);
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
}

TEST_SUITE("weights/gguf_tokenizer") {
  TEST_CASE("ids and texts are those of the reference") {
    for (const Case& c : kCases) {
      CAPTURE(std::string(c.name));
      const GgufFile file = open_file(c.name);
      const auto tokenizer = text::make_tokenizer(gguf_token_tables(file.metadata()));
      const JsonObject golden = JsonObject::open(kGoldens / c.folder / c.name / "expected.json",
                                                 ErrorCode::kBadReference);
      CHECK(tokenizer->vocab_size() == golden.require_int("vocab_size", 1, 1 << 20));
      for (const char* const list : {"texts", "sequences"}) {
        const auto rows = golden.get_objects(list);
        CHECK(rows.size() >= 12);
        for (const JsonObject& row : rows) {
          const std::vector<text::TokenId> ids = ids_of(row, "ids");
          CHECK(json_quote(tokenizer->decode(ids)) == json_quote(row.get_string("decoded", "")));
          if (!row.has("text")) continue;
          const std::string text = row.get_string("text", "");
          CAPTURE(json_quote(text));
          CHECK(tokenizer->encode(text) == ids);
          if (!row.has("plain_ids")) continue;
          CHECK(tokenizer->encode(text, text::AddedTokens::kPlainText) == ids_of(row, "plain_ids"));
        }
      }
    }
  }

  TEST_CASE("ends and the template are those of the metadata") {
    const GgufFile qwen2 = open_file("qwen2");
    const auto tokenizer = text::make_tokenizer(gguf_token_tables(qwen2.metadata()));
    CHECK(tokenizer->eos_id() == tokenizer->find_token("<|endoftext|>"));
    CHECK(!tokenizer->bos_id());
    CHECK(!tokenizer->find_token("[PAD710]"));
    CHECK(gguf_chat_template(qwen2.metadata()) == "{{ messages }}");
    const GgufFile legacy = open_file("legacy");
    CHECK(gguf_chat_template(legacy.metadata()).empty());
    text::TokenTables tables = gguf_token_tables(legacy.metadata());
    tables.adds_bos = false;
    tables.adds_eos = true;
    const std::vector<text::TokenId> ids = text::make_tokenizer(tables)->encode("a");
    CHECK(ids == std::vector<text::TokenId>{264, 2});
    tables.adds_space_prefix = false;
    CHECK(text::make_tokenizer(tables)->encode("a").size() == 2);
    CHECK(text::make_tokenizer(tables)->encode("a") != ids);
    text::TokenTables llama3 = gguf_token_tables(open_file("llama3").metadata());
    CHECK(llama3.bos_id == 700);
  }

  TEST_CASE("lists that are not supported or do not fit are refused by name") {
    using text::TokenTables;
    const auto change = [](auto work) {
      TokenTables tables = small_tables();
      work(tables);
      return tables;
    };
    CHECK(refusal(small_tables(), ErrorCode::kBadModel) == "");
    const struct {
      TokenTables tables;
      ErrorCode code;
      const char* message;
    } kRows[] = {
        {change([](TokenTables& t) { t.model = "t5"; }), ErrorCode::kUnavailable,
         "f: tokenizer.ggml.model \"t5\" is not supported by this build; gpt2 and llama are"},
        {change([](TokenTables& t) { t.pre = "falcon"; }), ErrorCode::kUnavailable,
         "f: tokenizer.ggml.pre \"falcon\" is not supported"},
        {change([](TokenTables& t) { t.pre = ""; }), ErrorCode::kUnavailable, "pre \"\" is not"},
        {change([](TokenTables& t) { t.tokens.clear(); }), ErrorCode::kBadModel,
         "f: has 0 tokens; expected 1 to"},
        {change([](TokenTables& t) { t.types.pop_back(); }), ErrorCode::kBadModel,
         "f: has 3 types (tokenizer.ggml.token_type) of 4 tokens; download the file again, or "
         "convert the model again"},
        {change([](TokenTables& t) { t.types[1] = 7; }), ErrorCode::kBadModel,
         "f: token 1, \"b\", has the unknown type 7"},
        {change([](TokenTables& t) { t.tokens[1] = "\xff"; }), ErrorCode::kBadModel,
         "is not valid UTF-8"},
        {change([](TokenTables& t) { t.tokens[1] = ""; }), ErrorCode::kBadModel, "has no text"},
        {change([](TokenTables& t) { t.tokens[1] = "a"; }), ErrorCode::kBadModel,
         "f: token 1, \"a\", is there twice"},
        {change([](TokenTables& t) { t.merges = {"a  b"}; }), ErrorCode::kBadModel,
         "f: tokenizer.ggml.merges[0]: expected two tokens"},
        {change([](TokenTables& t) { t.merges = {"b a"}; }), ErrorCode::kBadModel,
         "f: tokenizer.ggml.merges[0]: \"ba\" is not in the vocabulary"},
        {change([](TokenTables& t) { t.bos_id = 4; }), ErrorCode::kBadModel,
         "f: tokenizer.ggml.bos_token_id is 4; there are 4 tokens"},
        {change([](TokenTables& t) { t.adds_bos = true; }), ErrorCode::kBadModel,
         "f: a token is to be added to every text, but its id is missing"},
        {change([](TokenTables& t) { t.model = "llama"; }), ErrorCode::kBadModel,
         "f: has 0 scores (tokenizer.ggml.scores) of 4 tokens"},
        {change([](TokenTables& t) {
           t.model = "llama";
           t.scores = {0, 0, 0, 0};
         }),
         ErrorCode::kBadModel, "f: has 0 unknown pieces; expected one"},
    };
    for (const auto& row : kRows) {
      const std::string message = refusal(row.tables, row.code);
      CAPTURE(message);
      CAPTURE(std::string(row.message));
      CHECK(message.find(row.message) != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace caption::weights
