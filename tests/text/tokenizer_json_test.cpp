// What is read from tokenizer.json, vocab.json, merges.txt and tokenizer_config.json, and what is
// refused.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "text/internal/open_pipeline.h"
#include "text/internal/tokenizer_json.h"

namespace caption::text {
namespace {

constexpr const char* kModel =
    R"("model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]})";
constexpr const char* kDecoder = R"("decoder": {"type": "ByteLevel"})";
constexpr const char* kByteLevel =
    R"("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false})";

// A tokenizer.json of these members.
std::string document_of(const std::vector<std::string>& members) {
  std::string text = "{";
  for (const std::string& member : members) text += (text.size() > 1 ? ",\n" : "\n") + member;
  return text + "}";
}

std::unique_ptr<const Tokenizer> open(const std::string& tokenizer_json,
                                      const std::string& config = "{}") {
  TokenizerFiles files;
  files.folder = "m";
  files.tokenizer_json = tokenizer_json;
  files.tokenizer_config_json = config;
  return open_pipeline(std::move(files));
}

std::unique_ptr<const Tokenizer> open_slow(const std::string& vocab, const std::string& merges,
                                           const std::string& config) {
  TokenizerFiles files;
  files.folder = "m";
  files.vocab_json = vocab;
  files.merges_txt = merges;
  files.tokenizer_config_json = config;
  return open_pipeline(std::move(files));
}

using Ids = std::vector<TokenId>;

TEST_SUITE("text/tokenizer_json") {
  TEST_CASE("a small tokenizer runs, with merges of either form") {
    const auto tokenizer = open(document_of({kModel, kDecoder, kByteLevel}));
    CHECK(tokenizer->encode("abba") == Ids{2, 1, 0});
    CHECK(tokenizer->decode(Ids{2, 1, 0}) == "abba");
    const std::string pairs =
        R"("model": {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]})";
    CHECK(open(document_of({pairs, kDecoder, kByteLevel}))->encode("ab") == Ids{2});
  }

  TEST_CASE("models that are impossible or not supported are refused by file and key") {
    const struct {
      const char* model;
      const char* message;
      ErrorCode code;
    } kRows[] = {
        {R"("model": null)",
         "m/tokenizer.json: model: is missing; download the file again, or mend it",
         ErrorCode::kBadModel},
        {R"("model": {"type": "WordPiece"})", "model.type: \"WordPiece\"", ErrorCode::kUnavailable},
        {R"("model": {"type": "BPE", "vocab": {}})", "has no vocab or no merges",
         ErrorCode::kBadModel},
        {R"("model": {"type": "BPE", "vocab": {"a": 0, "a": 1}, "merges": []})",
         "\"a\" is there twice", ErrorCode::kBadModel},
        {R"("model": {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []})",
         "\"b\" has the id 0 of another token", ErrorCode::kBadModel},
        {R"("model": {"type": "BPE", "vocab": {"a": -1}, "merges": []})",
         "expected an integer from 0 to 1048575, found -1", ErrorCode::kBadModel},
        {R"("model": {"type": "BPE", "vocab": {"a": "0"}, "merges": []})",
         "expected a number, found a string", ErrorCode::kBadModel},
        {R"("model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a"]})",
         "model.merges[0]: expected two tokens with a space", ErrorCode::kBadModel},
        {R"("model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]})",
         "model.merges[0]: expected two tokens, found 1", ErrorCode::kBadModel},
        {R"("model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]})",
         "model.merges[0]: \"b\" is not in the vocabulary", ErrorCode::kBadModel},
        {R"("model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a a"]})",
         "model.merges[0]: \"aa\" is not in the vocabulary", ErrorCode::kBadModel},
        {R"("model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "u"})",
         "model.unk_token: \"u\" is not in the vocabulary", ErrorCode::kBadModel},
        {R"("model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.1})",
         "model.dropout", ErrorCode::kUnavailable},
        {R"("model": {"type": "BPE", "vocab": {}, "merges": [], "end_of_word_suffix": "</w>"})",
         "model.end_of_word_suffix: \"</w>\"", ErrorCode::kUnavailable},
        {R"("model": {"type": "Unigram", "vocab": [["a", 0.0]]})", "model.unk_id: is missing",
         ErrorCode::kBadModel},
        {R"("model": {"type": "Unigram", "unk_id": 1, "vocab": [["a", 0.0]]})",
         "model.unk_id: expected 0 to 0, found 1", ErrorCode::kBadModel},
        {R"("model": {"type": "Unigram", "unk_id": 0, "vocab": [["a"]]})",
         "expected a token and its score", ErrorCode::kBadModel},
        {R"("model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0], ["a", 0]]})",
         "\"a\" is there twice", ErrorCode::kBadModel},
    };
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.model));
      try {
        open(document_of({row.model, kDecoder}));
        FAIL("was opened");
      } catch (const Error& error) {
        CHECK(std::string(error.what()).find(row.message) != std::string::npos);
        CHECK(std::string(error.what()).find("m/tokenizer.json") != std::string::npos);
        CHECK(error.code() == row.code);
      }
    }
  }

  TEST_CASE("steps that are impossible or not supported are refused by file and key") {
    const struct {
      const char* member;
      const char* message;
      ErrorCode code;
    } kRows[] = {
        {R"("normalizer": {"type": "Precompiled"})", "normalizer: the normalizer \"Precompiled\"",
         ErrorCode::kUnavailable},
        {R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Nmt"}]})",
         "normalizer.normalizers[1]: the normalizer \"Nmt\"", ErrorCode::kUnavailable},
        {R"("normalizer": {"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""})",
         "normalizer: a Replace with a regular expression", ErrorCode::kUnavailable},
        {R"("normalizer": {})", "normalizer.type: is missing", ErrorCode::kBadModel},
        {R"("pre_tokenizer": {"type": "BertPreTokenizer"})",
         "pre_tokenizer: the pre-tokenizer \"BertPreTokenizer\"", ErrorCode::kUnavailable},
        {R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\w"}, "behavior": "Isolated"})",
         "pre_tokenizer: the pattern \"\\\\w\" uses \\w", ErrorCode::kUnavailable},
        {R"("pre_tokenizer": {"type": "Split", "pattern": {"String": "a"}, "behavior": "Other"})",
         "pre_tokenizer.behavior: \"Other\"", ErrorCode::kBadModel},
        {R"("pre_tokenizer": {"type": "Split", "behavior": "Isolated"})",
         "pre_tokenizer.pattern: is missing", ErrorCode::kBadModel},
        {R"("pre_tokenizer": {"type": "Metaspace", "replacement": "ab"})",
         "pre_tokenizer.replacement: expected one character", ErrorCode::kBadModel},
        {R"("pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "x"})",
         "pre_tokenizer.prepend_scheme: \"x\"", ErrorCode::kBadModel},
        {R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"},
            {"type": "Digits"}]})",
         "a pre-tokenizer after ByteLevel", ErrorCode::kUnavailable},
        {R"("post_processor": {"type": "BertProcessing"})",
         "post_processor: the post-processor \"BertProcessing\"", ErrorCode::kUnavailable},
        {R"("post_processor": {"type": "TemplateProcessing", "single": []})",
         "a template that does not hold the text once", ErrorCode::kUnavailable},
        {R"("post_processor": {"type": "TemplateProcessing", "special_tokens": {},
            "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]})",
         "special_tokens: \"<s>\" is missing", ErrorCode::kBadModel},
        {R"("post_processor": {"type": "TemplateProcessing", "special_tokens": {"s": {"ids": [9]}},
            "single": [{"SpecialToken": {"id": "s"}}, {"Sequence": {"id": "A"}}]})",
         "post_processor: there is no token 9", ErrorCode::kBadModel},
        {R"("added_tokens": [{"id": 7, "content": "x"}])",
         "added_tokens[0]: the added token \"x\" has the id 7; by the vocabulary and the tokens "
         "before it, it is 3",
         ErrorCode::kBadModel},
    };
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.member));
      try {
        open(document_of({kModel, kDecoder, row.member}));
        FAIL("was opened");
      } catch (const Error& error) {
        CHECK(std::string(error.what()).find(row.message) != std::string::npos);
        CHECK(std::string(error.what()).find("m/tokenizer.json: ") != std::string::npos);
        CHECK(error.code() == row.code);
      }
    }
  }

  // Each step is run for every token or every added token, so that many of both take hours.
  TEST_CASE("more steps than any tokenizer needs are refused") {
    const auto sequence = [](const std::string& key, const std::string& list,
                             const std::string& step) {
      std::string steps = step;
      for (int i = 1; i < 257; ++i) steps += ", " + step;
      return "\"" + key + "\": {\"type\": \"Sequence\", \"" + list + "\": [" + steps + "]}";
    };
    const std::string kTooMany[] = {
        sequence("normalizer", "normalizers", R"({"type": "NFC"})"),
        sequence("pre_tokenizer", "pretokenizers", R"({"type": "Digits"})"),
        sequence("post_processor", "processors", R"({"type": "ByteLevel"})")};
    for (const std::string& member : kTooMany) {
      CHECK_THROWS_WITH_AS(open(document_of({kModel, kDecoder, member})),
                           doctest::Contains("a Sequence of more than 256 steps"), Error);
    }
    CHECK_THROWS_WITH_AS(
        open(document_of(
            {kModel,
             sequence("decoder", "decoders",
                      R"({"type": "Replace", "pattern": {"String": "a"}, "content": ""})")})),
        doctest::Contains("decoder: a Sequence of more than 256 steps"), Error);
  }

  TEST_CASE("a message cites the beginning of a long pattern") {
    const std::string letters(5000, 'a');
    for (const std::string& pattern : {"(" + letters, letters + "\\\\w"}) {
      const std::string member = R"("pre_tokenizer": {"type": "Split", "behavior": "Isolated",
                                    "pattern": {"Regex": ")" +
                                 pattern + R"("}})";
      try {
        open(document_of({kModel, kDecoder, member}));
        FAIL("was opened");
      } catch (const Error& error) {
        CHECK(std::string(error.what()).find("aaa\"...") != std::string::npos);
        CHECK(std::string(error.what()).size() < 1000);
      }
    }
  }

  TEST_CASE("decoders whose texts depend on several tokens are refused by name") {
    const struct {
      const char* decoder;
      const char* message;
    } kRows[] = {
        {R"("decoder": null)", "a tokenizer without a decoder"},
        {R"("decoder": {"type": "WordPiece"})", "decoder: the decoder \"WordPiece\""},
        {R"("decoder": {"type": "Strip", "content": " ", "start": 1, "stop": 0})",
         "a Strip that does not follow Fuse"},
        {R"("decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"},
            {"type": "ByteFallback"}]})",
         "\"ByteFallback\" at this place"},
        {R"("decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 0, "stop": 1}]})",
         "a Strip at the end"},
    };
    for (const auto& row : kRows) {
      CAPTURE(std::string(row.decoder));
      CHECK_THROWS_WITH_AS(open(document_of({kModel, row.decoder})), doctest::Contains(row.message),
                           Error);
    }
  }

  TEST_CASE("steps that grow texts are bounded when the tokenizer is opened") {
    const auto step = [](const std::string& from, const std::string& to) {
      return R"({"type": "Replace", "pattern": {"String": ")" + from + R"("}, "content": ")" + to +
             R"("})";
    };
    const auto refusal = [](const std::vector<std::string>& members) {
      std::vector<std::string> all = {kModel};
      all.insert(all.end(), members.begin(), members.end());
      try {
        open(document_of(all));
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kUnavailable);
        return std::string(error.what());
      }
      return std::string("was opened");
    };
    const std::string k_a = std::string(1024, 'a');
    const auto decoder_of = [&](const std::string& last) {
      return R"("decoder": {"type": "Sequence", "decoders": [)" + step("b", "a") + "," +
             step("a", k_a) + "," + step("a", k_a) + "," + step("a", last) + "]}";
    };
    // One token of 1 GiB, and tokens of 100, 100 and 200 MiB.
    for (const std::string& last : {k_a, std::string(100, 'a')}) {
      CHECK(refusal({decoder_of(last)})
                .find("m/tokenizer.json: decoder: the texts of the tokens have more than "
                      "268435456 bytes") != std::string::npos);
    }
    const std::string normalizer = R"("normalizer": )" + step("x", std::string(1 << 20, 'a'));
    const std::string added =
        R"("added_tokens": [{"id": 3, "content": "xxxxx", "normalized": true}])";
    CHECK(refusal({kDecoder, normalizer, added})
              .find("m/tokenizer.json: the added token \"xxxxx\": the tokenizer's normalizer") !=
          std::string::npos);
    std::string list;
    for (int id = 3; id < 3 + 5000; ++id) {
      list += (list.empty() ? "" : ",") + (R"({"id": )" + std::to_string(id)) +
              R"(, "content": ")" + std::to_string(id) + k_a + "\"}";
    }
    CHECK(refusal({kDecoder, "\"added_tokens\": [" + list + "]"})
              .find("m/tokenizer.json: the added tokens have more than 4194304 bytes") !=
          std::string::npos);
    const std::string prepend = std::string(65, 'a');
    CHECK(refusal({kDecoder, R"("normalizer": {"type": "Prepend", "prepend": ")" + prepend + "\"}"})
              .find("m/tokenizer.json: normalizer: a Prepend of more than 64 bytes") !=
          std::string::npos);
  }

  TEST_CASE("a hundred thousand added tokens are read") {
    std::string list;
    std::string special;
    for (int id = 3; id < 3 + 100'000; ++id) {
      const std::string content = "\"<" + std::to_string(id) + ">\"";
      list += (list.empty() ? "" : ",") + (R"({"id": )" + std::to_string(id)) + R"(, "content": )" +
              content + "}";
      special += (special.empty() ? "" : ",") + content;
    }
    const auto tokenizer =
        open(document_of({kModel, kDecoder, kByteLevel, "\"added_tokens\": [" + list + "]"}),
             R"({"additional_special_tokens": [)" + special + "]}");
    CHECK(tokenizer->vocab_size() == 100'003);
    CHECK(tokenizer->encode("a<100002>") == Ids{0, 100'002});
  }

  TEST_CASE("the room that is made for tokens does not follow the commas of one token") {
    const std::string commas(4 << 20, ',');
    const std::string model =
        R"("model": {"type": "Unigram", "unk_id": 0, "vocab": [[")" + commas + R"(", 0.0]]})";
    const PipelineSpec spec = parse_tokenizer_json(document_of({model, kDecoder}), "m");
    CHECK(spec.vocabulary.find(commas) == 0);
    Vocabulary vocabulary;
    CHECK_THROWS_AS(vocabulary.reserve(kMaxTokenId + 2), Error);
  }

  TEST_CASE("a text is encoded with the ends that are asked for") {
    const auto tokenizer =
        open(document_of({kModel, kDecoder, kByteLevel,
                          R"("added_tokens": [{"id": 3, "content": "<s>", "special": true},
                             {"id": 4, "content": "</s>", "special": true}])",
                          R"("post_processor": {"type": "TemplateProcessing",
             "special_tokens": {"<s>": {"ids": [3]}, "</s>": {"ids": [4]}},
             "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}},
                        {"SpecialToken": {"id": "</s>"}}]})"}));
    const auto encode = [&](AddedEnds ends) {
      return tokenizer->encode("ab", AddedTokens::kRecognise, ends);
    };
    CHECK(tokenizer->encode("ab") == Ids{3, 2, 4});
    CHECK(encode({.beginning = true, .end = false}) == Ids{3, 2});
    CHECK(encode({.beginning = false, .end = true}) == Ids{2, 4});
    CHECK(encode({.beginning = false, .end = false}) == Ids{2});
  }

  TEST_CASE("the lines of messages are those of the file") {
    const std::string model =
        "\"model\": {\"type\": \"BPE\", \"vocab\": {\n\"a\": 0,\n\"b\": 1\n},"
        "\n\"merges\": [\n]},\n\"decoder\": {\"type\" \"ByteLevel\"}";
    CHECK_THROWS_WITH_AS(open("{\n" + model + "}"), doctest::Contains("line 8, column"), Error);
  }

  TEST_CASE("tokenizer_config.json adds tokens, flags and the space before a text") {
    const std::string json = document_of(
        {kModel, kDecoder, kByteLevel,
         R"("added_tokens": [{"id": 3, "content": "<x>", "special": false, "normalized": false}])"});
    CHECK(open(json)->decode(Ids{3, 0}) == "<x>a");
    CHECK(open(json, R"({"eos_token": "<x>"})")->eos_id() == 3);
    // A listing with other flags counts; the old one does not.
    const std::string listed =
        R"({"added_tokens_decoder": {"3": {"content": "<x>", "special": true},
        "4": {"content": "<y>", "special": true, "lstrip": true}}, "eos_token": "<z>"})";
    const auto tokenizer = open(json, listed);
    CHECK(tokenizer->decode(Ids{3, 0}) == "a");
    CHECK(tokenizer->encode("a  <y>") == Ids{0, 4});
    CHECK(tokenizer->eos_id() == 5);  // a special token that no list has
    CHECK(tokenizer->vocab_size() == 6);
    CHECK_THROWS_WITH_AS(open(json, R"({"added_tokens_decoder": {"9": {"content": "<y>"}}})"),
                         doctest::Contains("m/tokenizer_config.json: the added token \"<y>\""),
                         Error);
    // The vocabulary has no token for a space, which is therefore left out.
    const std::string spaced = document_of(
        {R"("model": {"type": "BPE", "vocab": {"a": 0, "Ġ": 1, "Ġa": 2}, "merges": ["Ġ a"]})",
         kDecoder, kByteLevel});
    CHECK(open(spaced)->encode("a") == Ids{0});
    CHECK(open(spaced, R"({"add_prefix_space": true})")->encode("a") == Ids{2});
  }

  TEST_CASE("classes of transformers that set the first and last token themselves") {
    const std::string json =
        document_of({kModel, kDecoder, kByteLevel,
                     R"("added_tokens": [{"id": 3, "content": "<unk>", "special": true},
             {"id": 4, "content": "<s>", "special": true},
             {"id": 5, "content": "</s>", "special": true}])"});
    CHECK(open(json, R"({"tokenizer_class": "LlamaTokenizer"})")->encode("a") == Ids{4, 0});
    CHECK(open(json, R"({"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": false,
                         "add_eos_token": true})")
              ->encode("a") == Ids{0, 5});
    CHECK(open(json, R"({"tokenizer_class": "PreTrainedTokenizerFast"})")->encode("a") == Ids{0});
  }

  TEST_CASE("vocab.json with merges.txt is a Qwen2Tokenizer or a GPT2Tokenizer") {
    const std::string vocab = R"({"a": 0, "b": 1, "ab": 2, "1": 3, "11": 4})";
    const std::string qwen2 = R"({"tokenizer_class": "Qwen2Tokenizer"})";
    const auto tokenizer = open_slow(vocab, "#version: 0.2\na b\r\n\n1 1\n", qwen2);
    CHECK(tokenizer->encode("ab11") == Ids{2, 3, 3});  // digits stand alone
    CHECK(tokenizer->eos_id() == 5);                   // the class's <|endoftext|>
    const auto gpt2 =
        open_slow(vocab, "#version: 0.2\na b\n1 1\n", R"({"tokenizer_class": "GPT2Tokenizer"})");
    CHECK(gpt2->encode("ab11") == Ids{2, 4});
    CHECK_THROWS_WITH_AS(open_slow(vocab, "a b c\n", qwen2),
                         doctest::Contains("m/merges.txt: line 1: expected two tokens"), Error);
    CHECK_THROWS_WITH_AS(open_slow(vocab, "a x\n", qwen2),
                         doctest::Contains("m/merges.txt: line 1: \"x\" is not in"), Error);
    CHECK_THROWS_WITH_AS(open_slow("{", "", qwen2), doctest::Contains("m/vocab.json"), Error);
    for (const char* config : {"{}", R"({"tokenizer_class": "BartTokenizer"})"}) {
      CHECK_THROWS_WITH_AS(open_slow(vocab, "", config),
                           doctest::Contains("m/tokenizer_config.json: tokenizer_class"), Error);
    }
  }
}

}  // namespace
}  // namespace caption::text
