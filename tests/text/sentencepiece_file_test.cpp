// tokenizer.model files that are damaged, of another format or malicious.
#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "text/internal/sentencepiece_file.h"
#include "text/internal/sentencepiece_tokenizer.h"

namespace caption::text {
namespace {

std::string golden_model() {
  return read_text_file(CAPTION_SOURCE_DIR "/tests/golden/text/modern/tokenizer.model");
}

std::vector<Piece> small_vocabulary() {
  return {{.text = "<unk>", .score = 0.0F, .type = PieceType::kUnknown},
          {.text = "<s>", .score = 0.0F, .type = PieceType::kControl},
          {.text = "a", .score = -1.0F, .type = PieceType::kNormal}};
}

// The message of the Error for this model; empty when it is accepted.
std::string refusal(const std::string& model) {
  try {
    parse_sentencepiece_model(model, "m");
    return "";
  } catch (const Error& error) {
    const bool expected_code =
        error.code() == ErrorCode::kBadModel || error.code() == ErrorCode::kUnavailable;
    return expected_code ? error.what() : "unexpected code";
  }
}

TEST_SUITE("text/sentencepiece_file") {
  TEST_CASE("what is written reads back the same, control pieces under another name") {
    const auto pieces = small_vocabulary();
    const auto back = parse_sentencepiece_model(write_sentencepiece_model(pieces), "m").pieces;
    REQUIRE(back.size() == pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      CHECK(back[i].text == (i == 1 ? "<reserved 1>" : pieces[i].text));
      CHECK(back[i].score == pieces[i].score);
      CHECK(back[i].type == pieces[i].type);
    }
  }

  TEST_CASE("bad pieces are refused by name") {
    const struct {
      Piece piece;
      const char* message;
    } kRows[] = {
        {{.text = ""}, "piece 3 has no text"},
        {{.text = "\xff"}, "piece 3 is not valid UTF-8"},
        {{.text = "a"}, "piece \"a\" is there twice"},
        {{.text = "b", .score = std::numeric_limits<float>::quiet_NaN()}, "piece 3 has a score"},
        {{.text = "b", .score = std::numeric_limits<float>::infinity()}, "piece 3 has a score"},
        {{.text = "b", .type = static_cast<PieceType>(7)}, "piece 3 has the unknown type 7"},
        {{.text = "b", .type = PieceType::kUnknown}, "has 2 unknown pieces"},
        {{.text = "b", .type = PieceType::kByte}, "\"b\" is of type BYTE"},
        {{.text = "<0x41>", .type = PieceType::kByte},
         "has 1 byte piece; expected none or 256; download the file again, or mend it"},
    };
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.message));
      auto pieces = small_vocabulary();
      pieces.push_back(row.piece);
      CHECK(refusal(write_sentencepiece_model(pieces)).find(row.message) != std::string::npos);
    }
  }

  TEST_CASE("files of another kind are refused") {
    const struct {
      std::string bytes;
      const char* message;
    } kRows[] = {
        {"", "holds no pieces"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"},
        {"IQ== 0\nIg== 1\n", "is not a SentencePiece model"},  // tiktoken
        {"{\"version\": \"1.0\"}", "is not a SentencePiece model"},
        {std::string(100, '\0'), "is not a SentencePiece model"},
        {std::string(100, '\xff'), "is not a SentencePiece model"},
    };
    for (const auto& row : kRows) {
      CAPTURE(row.bytes);
      CHECK(refusal(row.bytes).find(row.message) != std::string::npos);
    }
  }

  TEST_CASE("the type of a model counts, and one of words is unavailable, not broken") {
    const std::string model = write_sentencepiece_model(small_vocabulary());
    CHECK(parse_sentencepiece_model(model, "m").type == SentencePieceModel::Type::kBpe);
    // trainer_spec { model_type: UNIGRAM }, and WORD
    const std::string unigram = model + std::string("\x12\x02\x18\x01", 4);
    CHECK(parse_sentencepiece_model(unigram, "m").type == SentencePieceModel::Type::kUnigram);
    CHECK_THROWS_WITH_AS(parse_sentencepiece_model(model + std::string("\x12\x02\x18\x03", 4), "m"),
                         doctest::Contains("this build reads types 1 (unigram) and 2 (BPE)"),
                         Error);
  }

  TEST_CASE("a unigram model begins with its unknown, first and last piece") {
    TokenizerFiles files;
    files.folder = "m";
    auto pieces = small_vocabulary();
    pieces.push_back({.text = "</s>", .score = 0.0F, .type = PieceType::kControl});
    const std::string unigram("\x12\x02\x18\x01", 4);
    files.tokenizer_model = write_sentencepiece_model(pieces) + unigram;
    CHECK_THROWS_WITH_AS(make_sentencepiece_tokenizer(files),
                         doctest::Contains("piece 2 is not of type CONTROL"), Error);
    files.tokenizer_config_json = R"({"tokenizer_class": "T5Tokenizer"})";
    CHECK_THROWS_WITH_AS(make_sentencepiece_tokenizer(files),
                         doctest::Contains("tokenizer_class \"T5Tokenizer\""), Error);
  }

  TEST_CASE("a model cut short anywhere is refused or is a smaller model") {
    const std::string model = golden_model();
    const std::size_t num_pieces = parse_sentencepiece_model(model, "m").pieces.size();
    int num_whole = 0;
    for (std::size_t size = 0; size < model.size(); ++size) {
      CAPTURE(size);
      const std::string cut = model.substr(0, size);
      if (!refusal(cut).empty()) continue;
      // The cut was between two fields, so only the specs after the pieces can be missing.
      CHECK(parse_sentencepiece_model(cut, "m").pieces.size() == num_pieces);
      ++num_whole;
    }
    CHECK(num_whole <= 2);
  }

  TEST_CASE("a control piece of one character is spelled out in plain text") {
    TokenizerFiles files;
    files.folder = "m";
    files.tokenizer_model = golden_model();
    const std::size_t at = files.tokenizer_model->find("\x0a\x03<s>");
    REQUIRE(at != std::string::npos);
    files.tokenizer_model->replace(at, 5, "\x0a\x03\u2603");  // SNOWMAN, also three bytes
    files.tokenizer_config_json = R"({"bos_token": "\u2603"})";
    const auto tokenizer = make_sentencepiece_tokenizer(files);
    CHECK(tokenizer->encode("\u2603") == std::vector<TokenId>{1, 1});
    const auto plain = tokenizer->encode("\u2603", AddedTokens::kPlainText);
    CHECK(plain.size() == 5);  // <s>, U+2581, three bytes
    CHECK(tokenizer->decode(plain) == "\u2603");
  }

  TEST_CASE("flipped bytes never crash, whatever opens still encodes") {
    const std::string model = golden_model();
    std::mt19937 rng(3);
    int num_opened = 0;
    for (int round = 0; round < 300; ++round) {
      TokenizerFiles files;
      files.folder = "m";
      files.tokenizer_model = model;
      for (int flips = 0; flips < 3; ++flips) {
        (*files.tokenizer_model)[rng() % model.size()] = static_cast<char>(rng());
      }
      try {
        const auto tokenizer = make_sentencepiece_tokenizer(files);
        tokenizer->decode(tokenizer->encode("남자가 <s> hello \U0001F600"));
        ++num_opened;
      } catch (const Error& error) {
        CHECK(error.code() != ErrorCode::kInternal);
      }
    }
    CHECK(num_opened > 0);
  }
}

}  // namespace
}  // namespace caption::text
