// text/internal/tokenizer_files.h: reads the files of a tokenizer, and of those
// tokenizer_config.json and the older ones that say the same. Source: transformers 4.57.6,
// src/transformers/tokenization_utils_base.py and
// src/transformers/models/llama/tokenization_llama_fast.py.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/internal/added_tokens.h"

namespace caption::text {

// The contents of the files; std::nullopt for absent ones.
struct TokenizerFiles {
  std::string folder;  // path of the model folder, for messages
  std::optional<std::string> tokenizer_model;
  std::optional<std::string> tokenizer_config_json;
  std::optional<std::string> added_tokens_json;
  std::optional<std::string> special_tokens_map_json;
  std::optional<std::string> tokenizer_json;
  std::optional<std::string> vocab_json;  // vocabulary of byte-level BPE, with merges_txt
  std::optional<std::string> merges_txt;
};

// Where a U+2581 is inserted for the space before a first word.
enum class PrefixRule {
  kNone,
  // Before the segment at the very start of the text, unless it starts with U+2581 ("legacy":
  // false).
  kFirstSegment,
  // Before every segment between added tokens, unless it starts with U+2581.
  kEverySegment,
  // Before every segment between added tokens, whatever it starts with ("legacy": true).
  kEverySegmentAlways,
};

struct TokenizerConfig {
  PrefixRule prefix_rule = PrefixRule::kEverySegmentAlways;
  bool adds_bos = true;
  bool adds_eos = false;
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::vector<std::string> special_tokens;  // contents of all tokens that a file declares special
  std::vector<AddedToken> added_tokens;     // ascending by id
  bool lists_added_tokens = false;  // tokenizer_config.json does, and the older files do not count
};

// Reads the tokenizer files of a model folder. Throws Error(kBadModel) when there is none of
// tokenizer.model, tokenizer.json, and vocab.json with merges.txt; as read_text_file() for lack of
// memory and read errors.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& model_folder);

// An entry of a list of added tokens; the caller has read its id.
AddedToken read_added_token(const JsonObject& object, TokenId id);

// Parses the JSON files. Throws Error(kBadModel), with the name of the file in the message.
TokenizerConfig parse_tokenizer_config(const TokenizerFiles& files);

}  // namespace caption::text
