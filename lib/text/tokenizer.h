// text/tokenizer.h: text <-> token ids, for every family of tokenizer.
//
// The law: decode(encode(s)) = s for valid UTF-8 (up to the tokenizer's normalisation).
// A Tokenizer is immutable and thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caption::text {

using TokenId = std::int32_t;

// Whether the text of an added token such as "<video>" inside the input becomes that token (a
// prompt template) or plain characters (a user's words).
enum class AddedTokens { kRecognise, kPlainText };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Includes what the tokenizer adds by itself (<s> when the configuration says so).
  virtual std::vector<TokenId> encode(std::string_view text,
                                      AddedTokens added = AddedTokens::kRecognise) const = 0;
  // Special tokens are left out. Invalid UTF-8 from byte tokens becomes U+FFFD as the reference
  // implementation does. An id beyond the vocabulary (an LM head may have more rows, for padding)
  // contributes nothing; a negative one throws Error(kInternal).
  virtual std::string decode(std::span<const TokenId> ids) const = 0;

  // The bytes one token contributes inside a text (a special token: none); for incremental
  // detokenisation. `decode` of a list is the concatenation, less the first space when the
  // tokenizer strips one.
  virtual std::string token_bytes(TokenId id) const = 0;
  virtual bool strips_leading_space() const = 0;
  // True for SentencePiece's byte pieces <0x00>..<0xFF>: a maximal run of them (special tokens do
  // not end it) is decoded as a unit, and when it is not valid UTF-8 every byte of it becomes one
  // U+FFFD. A run that ends the ids, where a limit on tokens may have cut it, keeps its whole
  // characters instead, and every other byte of it becomes one U+FFFD. The bytes of all other
  // tokens form one UTF-8 stream; there, each maximal invalid subpart becomes one U+FFFD.
  virtual bool is_byte_fallback(TokenId /*id*/) const { return false; }

  // Number of ids, added tokens included.
  virtual std::int32_t vocab_size() const = 0;
  virtual std::optional<TokenId> find_token(std::string_view piece) const = 0;
  virtual std::optional<TokenId> bos_id() const = 0;
  virtual std::optional<TokenId> eos_id() const = 0;
};

// Opens the tokenizer of a Hugging Face model folder: tokenizer.model with tokenizer_config.json
// (and added_tokens.json, special_tokens_map.json, tokenizer.json when present).
// Throws Error(kBadModel) that names the file and what is wrong with it; kUnavailable for a
// tokenizer this build cannot read (tokenizer.json of another kind alone, a unigram model).
std::unique_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& model_folder);

// Turns a growing list of ids into text that never ends inside a character. One thread at a time.
// Source: models.md §6.4; the concatenation of all pieces equals decode() of the whole list. A run
// of byte-fallback tokens is therefore held back until it ends: only then is it known whether its
// bytes are characters.
class IncrementalDecoder {
 public:
  explicit IncrementalDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  // Text that became final with this token; often empty.
  std::string push(TokenId id);
  // The remainder: whole characters of a byte run, and U+FFFD for an unfinished one (one for each
  // of its bytes when they are byte-fallback tokens).
  std::string finish();

 private:
  std::string strip_start(std::string text);

  const Tokenizer& tokenizer_;
  std::string byte_run_;  // of byte-fallback tokens, not yet ended
  std::string pending_;   // of other tokens, an unfinished character
  bool at_start_ = true;
};

}  // namespace caption::text
