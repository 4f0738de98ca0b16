// The lists that a tokenizer is exported as encode and decode as its folder does, on all texts of
// the goldens.
#include "text/export_tokenizer.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace caption::text {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldens = CAPTION_SOURCE_DIR "/tests/golden";
constexpr std::int64_t kUnusedRows = 5;

std::unique_ptr<const Tokenizer> rebuilt(const TokenLists& lists) {
  TokenTables tables;
  tables.name = "lists";
  tables.model = lists.model;
  tables.pre = lists.pre;
  tables.tokens.assign(lists.tokens.begin(), lists.tokens.end());
  tables.types.assign(lists.types.begin(), lists.types.end());
  tables.scores.assign(lists.scores.begin(), lists.scores.end());
  tables.merges.assign(lists.merges.begin(), lists.merges.end());
  tables.bos_id = lists.bos_id;
  tables.eos_id = lists.eos_id;
  tables.unknown_id = lists.unknown_id;
  tables.adds_bos = lists.adds_bos;
  tables.adds_eos = lists.adds_eos;
  tables.adds_space_prefix = lists.adds_space_prefix;
  tables.space_prefix = lists.space_prefix;
  return make_tokenizer(tables);
}

struct Case {
  const char* folder;
  const char* model;
  const char* pre;
};
constexpr Case kCases[] = {{"text_pipelines/qwen2", "gpt2", "qwen2"},
                           {"text_pipelines/qwen2_slow", "gpt2", "qwen2"},
                           {"text_pipelines/llama3", "gpt2", "llama-bpe"},
                           {"text_pipelines/gpt2", "gpt2", "gpt-2"},
                           {"text/legacy", "llama", "default"},
                           {"text/modern", "llama", "default"},
                           {"text/no_prefix", "llama", "default"},
                           {"text/older_files", "llama", "default"}};

std::vector<std::string> golden_texts(const fs::path& folder) {
  const JsonObject golden = JsonObject::open(folder / "expected.json", ErrorCode::kBadReference);
  std::vector<std::string> texts;
  for (const JsonObject& row : golden.get_objects("texts")) {
    texts.push_back(row.get_string("text", ""));
  }
  return texts;
}

// Lists do not tell a piece of the model that is user-defined, which plain text may hold, from an
// added token that is not special, which it may not.
bool holds_user_defined(const TokenLists& lists, const std::string& text) {
  for (std::size_t id = 0; id < lists.tokens.size(); ++id) {
    if (lists.types[id] == TokenTables::kUserDefined &&
        text.find(lists.tokens[id]) != std::string::npos) {
      return true;
    }
  }
  return false;
}

TEST_SUITE("text/export_tokenizer") {
  TEST_CASE("exported tokenizers encode and decode as their folders do") {
    std::vector<std::string> texts = {
        "안녕하세요, 영상을 자세히 설명해 주세요.",
        "\xF0\x9F\x98\x80\xF0\x9F\x87\xB0\xF0\x9F\x87\xB7 \xE2\x80\x8D",
        "USER: <video>\nDescribe. ASSISTANT:", "<s>a</s>", "  \n\t "};
    for (const Case& c : kCases) {
      for (std::string& text : golden_texts(kGoldens / c.folder)) texts.push_back(std::move(text));
    }
    CHECK(texts.size() > 300);
    for (const Case& c : kCases) {
      CAPTURE(std::string(c.folder));
      const auto folder = open_tokenizer(kGoldens / c.folder);
      const TokenLists lists =
          export_tokenizer(kGoldens / c.folder, folder->vocab_size() + kUnusedRows);
      CHECK(lists.model == c.model);
      CHECK(lists.pre == c.pre);
      CHECK(std::ssize(lists.tokens) == folder->vocab_size() + kUnusedRows);
      CHECK(lists.types.back() == TokenTables::kUnused);
      const auto found = rebuilt(lists);
      // That of llama3 is named by its post-processor alone.
      if (folder->bos_id()) CHECK(found->bos_id() == folder->bos_id());
      CHECK(found->eos_id() == folder->eos_id());
      for (const std::string& text : texts) {
        CAPTURE(json_quote(text));
        const std::vector<TokenId> ids = folder->encode(text);
        CHECK(found->encode(text) == ids);
        if (!holds_user_defined(lists, text)) {
          CHECK(found->encode(text, AddedTokens::kPlainText) ==
                folder->encode(text, AddedTokens::kPlainText));
        }
        CHECK(json_quote(found->decode(ids)) == json_quote(folder->decode(ids)));
      }
    }
  }

  TEST_CASE("tokens without a row are left out") {
    const fs::path folder = kGoldens / "text/legacy";
    const TokenLists lists = export_tokenizer(folder, 300);
    CHECK(lists.tokens.size() == 300);
    CHECK(lists.scores.size() == 300);
  }

  TEST_CASE("tokenizers without a form are refused with a sentence") {
    const struct {
      const char* folder;
      const char* message;
    } kRows[] = {{"text/unigram", "tokenizer.model: is a Unigram tokenizer"},
                 {"text_pipelines/unigram", "tokenizer.json: is a Unigram tokenizer"},
                 {"text_pipelines/llama", "is a BPE of characters"},
                 {"text_pipelines/gpt4o", "none of the pre-tokenizers qwen2, llama-bpe, gpt-2"},
                 {"text_pipelines/gpt2_prefix", "has a normaliser other than NFC"}};
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.folder));
      std::string message;
      try {
        export_tokenizer(kGoldens / row.folder, 1000);
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kUnavailable);
        message = error.what();
      }
      CAPTURE(message);
      CHECK(message.find(row.message) != std::string::npos);
      CHECK(message.find('\n') == std::string::npos);
    }
  }
}

}  // namespace
}  // namespace caption::text
