// text/internal/tokenizer_files.h: reads the JSON files that accompany a tokenizer.model.
// Source: transformers 4.57.6, src/transformers/tokenization_utils_base.py and
// src/transformers/models/llama/tokenization_llama_fast.py.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/internal/added_tokens.h"

namespace caption::text {

// The contents of the files; std::nullopt for absent ones.
struct TokenizerFiles {
  std::string folder;  // path of the model folder, for messages
  std::string tokenizer_model;
  std::optional<std::string> tokenizer_config_json;
  std::optional<std::string> added_tokens_json;
  std::optional<std::string> special_tokens_map_json;
  std::optional<std::string> tokenizer_json;
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
  std::string bos_token;
  std::string eos_token;
  std::vector<std::string> special_tokens;  // contents of all tokens that a file declares special
  std::vector<AddedToken> added_tokens;     // ascending by id
};

// Reads the tokenizer files of a model folder. Throws Error(kBadModel) when they are missing;
// Error(kUnavailable) when the folder has only those of another kind of tokenizer; as
// read_text_file() for lack of memory and read errors.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& model_folder);

// Parses the JSON files. Throws Error(kBadModel), with the name of the file in the message.
TokenizerConfig parse_tokenizer_config(const TokenizerFiles& files);

}  // namespace caption::text
