// The pieces of IncrementalDecoder concatenate to decode() of the whole list.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "text/incremental_decoder.h"
#include "text/tokenizer.h"

namespace caption::text {
namespace {

const char* const kGoldens = CAPTION_SOURCE_DIR "/tests/golden/text/";

std::vector<std::string> pieces_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  IncrementalDecoder decoder(tokenizer);
  std::vector<std::string> pieces;
  for (const TokenId id : ids) pieces.push_back(decoder.push(id));
  pieces.push_back(decoder.finish());
  return pieces;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

// A tokenizer whose tokens are a few bytes of one UTF-8 stream, as with byte-level BPE.
class ByteStreamTokenizer final : public Tokenizer {
 public:
  explicit ByteStreamTokenizer(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {}

  std::vector<TokenId> encode(std::string_view, AddedTokens, AddedEnds) const override {
    return {};
  }
  std::string decode(std::span<const TokenId> ids) const override {
    std::string bytes;
    for (const TokenId id : ids) bytes += token_bytes(id);
    return make_valid_utf8(bytes);
  }
  std::string token_bytes(TokenId id) const override {
    return tokens_[static_cast<std::size_t>(id)];
  }
  bool strips_leading_space() const override { return false; }
  std::int32_t vocab_size() const override { return static_cast<std::int32_t>(tokens_.size()); }
  std::optional<TokenId> find_token(std::string_view) const override { return std::nullopt; }
  std::optional<TokenId> bos_id() const override { return std::nullopt; }
  std::optional<TokenId> eos_id() const override { return std::nullopt; }

 private:
  std::vector<std::string> tokens_;
};

TEST_SUITE("text/incremental_decoder") {
  TEST_CASE("the pieces of random ids are whole characters and join to decode()") {
    std::mt19937 rng(7);
    for (const char* name : {"legacy", "modern", "flags_modern", "no_prefix", "user_defined"}) {
      CAPTURE(std::string(name));
      const auto tokenizer = open_tokenizer(std::string(kGoldens) + name);
      const std::int32_t size = tokenizer->vocab_size();
      for (int round = 0; round < 2000; ++round) {
        std::vector<TokenId> ids(rng() % 24);
        // Half of the rounds draw from control and byte tokens only, the difficult ones.
        const std::int32_t range = round % 2 == 0 ? size : std::min(size, 262);
        for (TokenId& id : ids) id = static_cast<TokenId>(rng() % range);
        const auto pieces = pieces_of(*tokenizer, ids);
        for (const std::string& piece : pieces) CHECK(is_valid_utf8(piece));
        CHECK(joined(pieces) == tokenizer->decode(ids));
      }
    }
  }

  TEST_CASE("the pieces of a byte stream are whole characters and join to decode()") {
    std::vector<std::string> tokens = {"",     "\xea", "\xb0", "\x80",     "\xf0\x9f", "\x98\x80",
                                       "\xc3", " a",   "가",   "\xea\xb0", "\xff",     "\xed\xa0"};
    const ByteStreamTokenizer tokenizer(tokens);
    std::mt19937 rng(8);
    for (int round = 0; round < 5000; ++round) {
      std::vector<TokenId> ids(rng() % 12);
      for (TokenId& id : ids) id = static_cast<TokenId>(rng() % tokens.size());
      const auto pieces = pieces_of(tokenizer, ids);
      for (const std::string& piece : pieces) CHECK(is_valid_utf8(piece));
      CHECK(joined(pieces) == tokenizer.decode(ids));
    }
  }

  TEST_CASE(
      "Korean, in byte tokens or not, may be cut after any token and is never held too long") {
    std::mt19937 rng(9);
    const std::vector<std::string> words = {
        "영상", "에는", " 파란", " 하늘",  "이 ",          "뷁",   "똠방", "👩‍🎤",
        " a",   "b",    "\n",    "한국어", "\u1112\u1161", "漢字", ". ",   "\u00e9"};
    int num_held = 0;
    for (const char* name : {"legacy", "modern", "no_prefix"}) {
      CAPTURE(std::string(name));
      const auto tokenizer = open_tokenizer(std::string(kGoldens) + name);
      for (int round = 0; round < 300; ++round) {
        std::string text = "가";
        for (auto i = rng() % 12; i > 0; --i) text += words[rng() % words.size()];
        CAPTURE(text);
        std::vector<TokenId> ids = tokenizer->encode(text, AddedTokens::kPlainText);
        if (round % 3 == 0) ids[rng() % ids.size()] = 5 + static_cast<TokenId>(rng() % 250);
        IncrementalDecoder decoder(*tokenizer);
        std::string shown;
        for (std::size_t i = 0; i < ids.size(); ++i) {
          const std::string piece = decoder.push(ids[i]);
          CHECK(is_valid_utf8(piece));
          shown += piece;
          const std::string so_far = tokenizer->decode(std::span(ids).first(i + 1));
          IncrementalDecoder cut_here = decoder;
          CHECK(shown + cut_here.finish() == so_far);
          // Only runs of byte-fallback tokens are held back.
          if (!tokenizer->is_byte_fallback(ids[i]) && !tokenizer->token_bytes(ids[i]).empty()) {
            CHECK(shown == so_far);
          }
          num_held += shown == so_far ? 0 : 1;
        }
        shown += decoder.finish();
        if (round % 3 != 0) CHECK(shown == text);
      }
    }
    CHECK(num_held > 1000);  // the texts contain byte runs
  }

  TEST_CASE("a caption cut inside a byte run keeps the whole characters of the run") {
    const auto tokenizer = open_tokenizer(std::string(kGoldens) + "modern");
    const TokenId byte = *tokenizer->find_token("<0x00>");
    const std::string run = "뷁쀍👩";
    struct Case {
      std::size_t num_bytes;
      const char* text;
    };
    const Case cases[] = {{1, "\uFFFD"},
                          {3, "뷁"},
                          {4, "뷁\uFFFD"},
                          {5, "뷁\uFFFD\uFFFD"},
                          {6, "뷁쀍"},
                          {10, "뷁쀍👩"},
                          {9, "뷁쀍\uFFFD\uFFFD\uFFFD"}};
    for (const Case& c : cases) {
      CAPTURE(c.num_bytes);
      std::vector<TokenId> ids;
      for (std::size_t i = 0; i < c.num_bytes; ++i) {
        ids.push_back(byte + static_cast<unsigned char>(run[i]));
      }
      CHECK(tokenizer->decode(ids) == c.text);
      CHECK(joined(pieces_of(*tokenizer, ids)) == c.text);
      ids.push_back(*tokenizer->eos_id());
      CHECK(tokenizer->decode(ids) == c.text);
    }
  }

  TEST_CASE("ordinary text comes out token by token, a byte run when it has ended") {
    const auto tokenizer = open_tokenizer(std::string(kGoldens) + "modern");
    const TokenId a = *tokenizer->find_token("\u2581a");
    const TokenId byte = *tokenizer->find_token("<0x00>");
    const std::vector<TokenId> ids = {1, a,           byte + 0xEA, byte + 0xB0,
                                      2, byte + 0x80, a,           byte + 0xEA};
    CHECK(pieces_of(*tokenizer, ids) ==
          std::vector<std::string>{"", "a", "", "", "", "", "가 a", "", "\uFFFD"});
  }
}

}  // namespace
}  // namespace caption::text
