// text/internal/tokenizer_files.h: the JSON files beside a tokenizer.model.
// Source: models.md §6.2; transformers 4.57.6, tokenization_utils_base.py and
// tokenization_llama_fast.py.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/internal/added_tokens.h"

namespace caption::text {

// The contents of the files; those that are absent are std::nullopt.
struct TokenizerFiles {
  std::string folder;  // for messages
  std::string tokenizer_model;
  std::optional<std::string> tokenizer_config_json;
  std::optional<std::string> added_tokens_json;
  std::optional<std::string> special_tokens_map_json;
  std::optional<std::string> tokenizer_json;
};

// Where the U+2581 that stands for a space before the first word goes.
enum class PrefixRule {
  kNone,
  // Before the segment at the very start of the text, unless it starts with one ("legacy": false).
  kFirstSegment,
  // Before every segment between added tokens, unless it starts with one.
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
  std::vector<std::string> special_tokens;  // every content a file calls special
  std::vector<AddedToken> added_tokens;     // ascending ids
};

// Throws Error(kBadModel) for missing tokenizer files; kUnavailable when there are only those of
// another kind of tokenizer.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& model_folder);

// Throws Error(kBadModel).
TokenizerConfig parse_tokenizer_config(const TokenizerFiles& files);

}  // namespace caption::text
