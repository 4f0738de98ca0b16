// Ids and texts equal those of Hugging Face's LlamaTokenizerFast (scripts/make_goldens_text.py).
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

namespace caption::text {
namespace {

const std::filesystem::path kGoldens = CAPTION_SOURCE_DIR "/tests/golden/text";

const char* const kCases[] = {"legacy",       "modern",    "flags_legacy",
                              "flags_modern", "no_prefix", "older_files",
                              "user_defined", "unigram",   "fast_json"};

JsonObject expected(const std::filesystem::path& folder) {
  return JsonObject::open(folder / "expected.json", ErrorCode::kBadReference);
}

std::vector<TokenId> ids_of(const JsonObject& row, const char* key) {
  std::vector<TokenId> ids;
  for (const std::int64_t id : row.get_ints(key)) ids.push_back(static_cast<TokenId>(id));
  return ids;
}

TEST_SUITE("text/golden") {
  TEST_CASE("ids and texts are those of the reference") {
    for (const char* name : kCases) {
      CAPTURE(std::string(name));
      const auto tokenizer = open_tokenizer(kGoldens / name);
      const auto rows = expected(kGoldens / name).get_objects("texts");
      CHECK(rows.size() > 100);
      for (const JsonObject& row : rows) {
        const std::string text = row.get_string("text", "");
        CAPTURE(json_quote(text));
        const std::vector<TokenId> ids = tokenizer->encode(text);
        CHECK(ids == ids_of(row, "ids"));
        CHECK(tokenizer->decode(ids_of(row, "ids")) == row.get_string("decoded", ""));
      }
    }
  }

  TEST_CASE("special tokens in plain text are spelled out") {
    // The reference (split_special_tokens) encodes only special tokens as plain text,
    // AddedTokens::kPlainText all tokens of the configuration. The compared cases are those whose
    // added tokens are all special.
    for (const char* name :
         {"legacy", "modern", "no_prefix", "user_defined", "unigram", "fast_json"}) {
      CAPTURE(std::string(name));
      const auto tokenizer = open_tokenizer(kGoldens / name);
      for (const JsonObject& row : expected(kGoldens / name).get_objects("texts")) {
        const std::string text = row.get_string("text", "");
        CAPTURE(json_quote(text));
        CHECK(tokenizer->encode(text, AddedTokens::kPlainText) == ids_of(row, "plain_ids"));
      }
    }
  }

  TEST_CASE("ids that no text encodes to decode as the reference does") {
    for (const char* name : kCases) {
      CAPTURE(std::string(name));
      const auto tokenizer = open_tokenizer(kGoldens / name);
      const auto rows = expected(kGoldens / name).get_objects("sequences");
      CHECK(rows.size() >= 12);
      for (const JsonObject& row : rows) {
        const std::vector<TokenId> ids = ids_of(row, "ids");
        CAPTURE(ids.size());
        CHECK(json_quote(tokenizer->decode(ids)) == json_quote(row.get_string("decoded", "")));
      }
    }
  }

  TEST_CASE("the vocabulary counts the added tokens") {
    for (const char* name : kCases) {
      CAPTURE(std::string(name));
      CHECK(open_tokenizer(kGoldens / name)->vocab_size() ==
            expected(kGoldens / name).require_int("vocab_size", 1, 1 << 20));
    }
  }

  TEST_CASE("pieces are found by their text") {
    const auto tokenizer = open_tokenizer(kGoldens / "modern");
    CHECK(tokenizer->find_token("<video>") == 520);
    CHECK(tokenizer->find_token("<0x00>") == 3);
    CHECK(tokenizer->find_token("\u2581a").has_value());
    CHECK_FALSE(tokenizer->find_token("no such piece").has_value());
    CHECK(tokenizer->bos_id() == 1);
    CHECK(tokenizer->eos_id() == 2);
    CHECK(tokenizer->token_bytes(520).empty());
    CHECK(tokenizer->token_bytes(*tokenizer->find_token("\u2581a")) == " a");
  }

  TEST_CASE("an id beyond the vocabulary says nothing, a negative one is our own bug") {
    const auto tokenizer = open_tokenizer(kGoldens / "modern");
    const TokenId word = *tokenizer->find_token("\u2581a");
    CHECK(tokenizer->decode(std::vector<TokenId>{522, word, 1 << 30}) ==
          tokenizer->decode(std::vector<TokenId>{word}));
    CHECK(tokenizer->token_bytes(522).empty());
    CHECK_THROWS_WITH_AS(tokenizer->decode(std::vector<TokenId>{-1}),
                         doctest::Contains("is negative"), Error);
  }

  TEST_CASE("invalid UTF-8 is encoded as its replacement characters") {
    const std::string broken[] = {"\xff",     "a\xc3",
                                  "\xea\xb0", "\xed\xa0\x80 x",
                                  "가\x80나", std::string("\xf0\x9f\x98\0 <video>", 12)};
    for (const char* name : kCases) {
      CAPTURE(std::string(name));
      const auto tokenizer = open_tokenizer(kGoldens / name);
      for (const std::string& text : broken) {
        CHECK(tokenizer->encode(text) == tokenizer->encode(make_valid_utf8(text)));
      }
    }
  }

  TEST_CASE("decode(encode(text)) is the text") {
    // The legacy rule prepends a space to every segment, so leading spaces of the text survive
    // decode().
    const auto tokenizer = open_tokenizer(kGoldens / "legacy");
    for (const JsonObject& row : expected(kGoldens / "legacy").get_objects("texts")) {
      const std::string text = row.get_string("text", "");
      CAPTURE(json_quote(text));
      // U+2581 in a text decodes as a space, because the tokenizer writes spaces that way.
      std::u32string wanted = decode_utf8_lossy(text);
      std::replace(wanted.begin(), wanted.end(), U'\u2581', U' ');
      const std::string back = tokenizer->decode(tokenizer->encode(text, AddedTokens::kPlainText));
      CHECK(decode_utf8_lossy(back) == wanted);
    }
  }

  TEST_CASE("threads may use one tokenizer at once") {
    const auto tokenizer = open_tokenizer(kGoldens / "modern");
    const std::string text = "남자가 공원에서 <video> \U0001F600 걷고 있다.";
    const std::vector<TokenId> ids = tokenizer->encode(text);
    std::atomic<int> num_wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) {
          if (tokenizer->encode(text) != ids || tokenizer->decode(ids).empty()) ++num_wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(num_wrong == 0);
  }

  TEST_CASE("a long text takes no more than a moment") {
    const auto tokenizer = open_tokenizer(kGoldens / "modern");
    std::string text;
    while (text.size() < 1'000'000) text += "걷고 있다 a<video>\n";
    const auto ids = tokenizer->encode(text);
    CHECK(std::count(ids.begin(), ids.end(), 520) == 43'479);
    CHECK(tokenizer->encode(std::string(200'000, 'a')).size() > 1000);
  }
}

}  // namespace
}  // namespace caption::text
