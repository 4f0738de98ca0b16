// Ids and texts equal those of transformers' AutoTokenizer on tokenizer.json and on vocab.json with
// merges.txt (scripts/make_goldens_byte_bpe.py).
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/incremental_decoder.h"
#include "text/tokenizer.h"

namespace caption::text {
namespace {

const std::filesystem::path kGoldens = CAPTION_SOURCE_DIR "/tests/golden/text_pipelines";

const char* const kCases[] = {
    "qwen2",         "llama3",     "gpt2",        "gpt2_prefix",     "gpt4o",   "deepseek",
    "splits",        "llama",      "gemma",       "llama_first",     "unknown", "unigram",
    "unigram_bytes", "qwen2_slow", "llama_class", "added_in_config", "cl100k"};

JsonObject expected(const char* name) {
  return JsonObject::open(kGoldens / name / "expected.json", ErrorCode::kBadReference);
}

std::vector<TokenId> ids_of(const JsonObject& row, const char* key) {
  std::vector<TokenId> ids;
  for (const std::int64_t id : row.get_ints(key)) ids.push_back(static_cast<TokenId>(id));
  return ids;
}

TEST_SUITE("text/pipeline_golden") {
  TEST_CASE("ids and texts are those of the reference") {
    for (const char* name : kCases) {
      CAPTURE(std::string(name));
      const auto tokenizer = open_tokenizer(kGoldens / name);
      const JsonObject golden = expected(name);
      CHECK(tokenizer->vocab_size() == golden.require_int("vocab_size", 1, 1 << 20));
      const auto rows = golden.get_objects("texts");
      CHECK(rows.size() > 100);
      int num_plain = 0;
      for (const JsonObject& row : rows) {
        const std::string text = row.get_string("text", "");
        CAPTURE(json_quote(text));
        const std::vector<TokenId> ids = ids_of(row, "ids");
        CHECK(tokenizer->encode(text) == ids);
        CHECK(json_quote(tokenizer->decode(ids)) == json_quote(row.get_string("decoded", "")));
        if (!row.has("plain_ids")) continue;
        CHECK(tokenizer->encode(text, AddedTokens::kPlainText) == ids_of(row, "plain_ids"));
        ++num_plain;
      }
      CHECK((num_plain == 0 || num_plain > 100));
    }
  }

  TEST_CASE("ids that no text encodes to decode as the reference does") {
    for (const char* name : kCases) {
      CAPTURE(std::string(name));
      const auto tokenizer = open_tokenizer(kGoldens / name);
      const auto rows = expected(name).get_objects("sequences");
      CHECK(rows.size() > 40);
      for (const JsonObject& row : rows) {
        const std::vector<TokenId> ids = ids_of(row, "ids");
        CHECK(json_quote(tokenizer->decode(ids)) == json_quote(row.get_string("decoded", "")));
      }
    }
  }

  TEST_CASE("the pieces of random ids are whole characters and join to decode()") {
    std::mt19937 rng(5);
    for (const char* name : kCases) {
      CAPTURE(std::string(name));
      const auto tokenizer = open_tokenizer(kGoldens / name);
      for (int round = 0; round < 400; ++round) {
        // The first ids are the special tokens and bytes, the difficult ones.
        const auto range = static_cast<unsigned>(
            round % 2 == 0 ? tokenizer->vocab_size() : std::min(tokenizer->vocab_size(), 262));
        std::vector<TokenId> ids(rng() % 24);
        for (TokenId& id : ids) id = static_cast<TokenId>(rng() % range);
        IncrementalDecoder decoder(*tokenizer);
        std::string text;
        for (const TokenId id : ids) {
          const std::string piece = decoder.push(id);
          CHECK(is_valid_utf8(piece));
          text += piece;
        }
        text += decoder.finish();
        CHECK(text == tokenizer->decode(ids));
      }
    }
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

  TEST_CASE("a user's words never become added tokens") {
    const auto tokenizer = open_tokenizer(kGoldens / "qwen2");
    const TokenId start = *tokenizer->find_token("<|im_start|>");
    const TokenId think = *tokenizer->find_token("<think>");
    const std::string text = "a<|im_start|><think>b";
    for (const TokenId id : tokenizer->encode(text, AddedTokens::kPlainText)) {
      CHECK(id != start);
      CHECK(id != think);
    }
    CHECK(tokenizer->decode(tokenizer->encode(text, AddedTokens::kPlainText)) == text);
    CHECK(tokenizer->decode(tokenizer->encode(text)) == "a<think>b");
    CHECK(tokenizer->token_bytes(start).empty());
    CHECK(tokenizer->token_bytes(think) == "<think>");
  }

  TEST_CASE("tokens are found by the texts of the file") {
    const auto qwen2 = open_tokenizer(kGoldens / "qwen2");
    CHECK(qwen2->find_token("!") == 0);
    CHECK(qwen2->find_token("<|im_end|>") == 702);
    CHECK_FALSE(qwen2->find_token("no such token").has_value());
    CHECK_FALSE(qwen2->bos_id().has_value());
    CHECK_FALSE(qwen2->eos_id().has_value());
    CHECK(open_tokenizer(kGoldens / "qwen2_slow")->eos_id() == 702);
    CHECK(open_tokenizer(kGoldens / "llama_class")->bos_id() == 1);
    CHECK_THROWS_AS(qwen2->decode(std::vector<TokenId>{-1}), Error);
    CHECK(qwen2->decode(std::vector<TokenId>{1 << 30}).empty());
  }

  TEST_CASE("hostile texts of a megabyte take no more than a moment") {
    const std::size_t size = 1'000'000;
    const std::string texts[] = {std::string(size, 'a'),  std::string(size, ' '),
                                 std::string(size, '\n'), std::string(size, '\''),
                                 std::string(size, '!'),  std::string(size, '\xff')};
    for (const char* name : {"qwen2", "llama"}) {
      CAPTURE(std::string(name));
      const auto tokenizer = open_tokenizer(kGoldens / name);
      for (const std::string& text : texts) {
        const auto ids = tokenizer->encode(text);
        CHECK(ids.size() > 1000);
        CHECK(tokenizer->decode(ids) == make_valid_utf8(text));
      }
    }
  }

  TEST_CASE("threads may use one tokenizer at once") {
    const auto tokenizer = open_tokenizer(kGoldens / "llama3");
    const std::string text = "남자가 공원에서 <|eot_id|> \U0001F600 걷고 있다. 12345";
    const std::vector<TokenId> ids = tokenizer->encode(text);
    std::atomic<int> num_wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 200; ++i) {
          if (tokenizer->encode(text) != ids || tokenizer->decode(ids).empty()) ++num_wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(num_wrong == 0);
  }
}

}  // namespace
}  // namespace caption::text
