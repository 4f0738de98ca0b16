// text/tokenizer.h: conversion between text and token ids, for every family of tokenizer.
//
// Invariant: decode(encode(s)) = s for valid UTF-8 (up to the tokenizer's normalisation).
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

// Whether an added token such as "<video>" in the input is encoded as that token (for a prompt
// template) or as plain characters (for a user's words).
enum class AddedTokens { kRecognise, kPlainText };

// Whether a text is encoded with the tokens that the tokenizer puts before it (<s>) and after it
// (</s>), as far as its configuration has any. A part of a longer text gets those of the ends that
// it holds.
struct AddedEnds {
  bool beginning = true;
  bool end = true;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The ids of a text, with the tokens that the tokenizer adds at `ends`.
  virtual std::vector<TokenId> encode(std::string_view text,
                                      AddedTokens added = AddedTokens::kRecognise,
                                      AddedEnds ends = {}) const = 0;
  // The text of a list of ids. Special tokens are left out. Invalid UTF-8 from byte tokens becomes
  // U+FFFD as in the reference implementation. An id beyond the vocabulary (an LM head may have
  // more rows, for padding) contributes nothing; a negative id throws Error(kInternal).
  virtual std::string decode(std::span<const TokenId> ids) const = 0;

  // The bytes that one token contributes inside a text (none for a special token), for incremental
  // detokenisation. decode() of a list is the concatenation, without the first space when the
  // tokenizer strips one.
  virtual std::string token_bytes(TokenId id) const = 0;
  // The same for the first token of a list that contributes bytes: a Metaspace decoder leaves out
  // all of its marks for spaces there.
  virtual std::string first_token_bytes(TokenId id) const { return token_bytes(id); }
  virtual bool strips_leading_space() const = 0;
  // True for SentencePiece's byte pieces <0x00>..<0xFF>. A maximal run of them (special tokens do
  // not end it) is decoded as a unit: when it is not valid UTF-8, each of its bytes becomes one
  // U+FFFD. A run at the end of the ids, where a limit on tokens may have cut it, keeps its
  // complete characters, and each other byte becomes one U+FFFD. The bytes of all other tokens form
  // one UTF-8 stream, in which each maximal invalid subpart becomes one U+FFFD.
  virtual bool is_byte_fallback(TokenId /*id*/) const { return false; }

  // What it is, for reports: "byte-level BPE", "SentencePiece BPE", "Unigram".
  virtual std::string kind() const { return {}; }
  // Number of ids, including added tokens.
  virtual std::int32_t vocab_size() const = 0;
  virtual std::optional<TokenId> find_token(std::string_view piece) const = 0;
  virtual std::optional<TokenId> bos_id() const = 0;
  virtual std::optional<TokenId> eos_id() const = 0;
};

// Opens the tokenizer of a Hugging Face model folder, with tokenizer_config.json, added_tokens.json
// and special_tokens_map.json as far as they are present:
//   tokenizer.model        SentencePiece BPE, or Unigram without a tokenizer.json of the same type
//   tokenizer.json         else; model types BPE (byte-level or of characters) and Unigram
//   vocab.json, merges.txt else; for a Qwen2Tokenizer or a GPT2Tokenizer
// clean_up_tokenization_spaces is not applied by decode(). Without a tokenizer_config.json a
// warning names the settings that are assumed. Throws Error(kBadModel) with the file and what is
// wrong with it; Error(kUnavailable) for a tokenizer, or a part of its pipeline, that this build
// cannot run.
std::unique_ptr<const Tokenizer> open_tokenizer(const std::filesystem::path& model_folder);

}  // namespace caption::text
