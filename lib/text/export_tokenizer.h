// text/export_tokenizer.h: the tokenizer of a model folder as the lists that GGUF files hold.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/token_tables.h"
#include "text/tokenizer.h"

namespace caption::text {

// As TokenTables, with its own memory.
struct TokenLists {
  std::string model;  // "gpt2" or "llama"
  std::string pre;    // "default" for llama
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::vector<float> scores;
  std::vector<std::string> merges;
  std::optional<TokenId> bos_id;
  std::optional<TokenId> eos_id;
  std::optional<TokenId> unknown_id;
  std::optional<TokenId> padding_id;
  bool adds_bos = false;
  bool adds_eos = false;
  bool adds_space_prefix = true;
  SpacePrefix space_prefix = SpacePrefix::kEverySegmentAlways;
};

// Returns the lists for `num_tokens` ids, the rows of the model's embedding: ids without a token
// are "[PAD<id>]" of the type kUnused, tokens without a row are left out. make_tokenizer() of the
// lists encodes as open_tokenizer() of the folder does. It decodes alike but for added tokens that
// look special, such as <|x|>: as in files of llama.cpp's converter they are control tokens, which
// decode() leaves out, also where the folder calls them text; and in plain text added tokens that
// are not special are found, which the lists do not tell from pieces of the model. Source: facts
// from ggml-org/llama.cpp, conversion/base.py.
//
// Throws Error(kUnavailable) with a sentence for a tokenizer that these lists cannot hold: Unigram,
// BPE of characters without a tokenizer.model, another normalisation or other words than those of
// known pre-tokenizers, added tokens that take white space with them; as open_tokenizer().
TokenLists export_tokenizer(const std::filesystem::path& model_folder, std::int64_t num_tokens);

}  // namespace caption::text
