#include "weights/gguf_tokenizer.h"

#include <limits>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "weights/internal/own_keys.h"

namespace caption::weights {
namespace {

std::optional<std::int64_t> find_id(const GgufMetadata& metadata, std::string_view key) {
  if (!metadata.has(key)) return std::nullopt;
  return metadata.require_int(key, 0, std::numeric_limits<std::int32_t>::max());
}

std::optional<bool> find_bool(const GgufMetadata& metadata, std::string_view key) {
  if (!metadata.has(key)) return std::nullopt;
  return metadata.get_bool(key, false);
}

// What llama.cpp does not know: the rule of a tokenizer whose "legacy" is false.
text::SpacePrefix space_prefix_of(const GgufMetadata& metadata) {
  const std::string rule = metadata.get_string(kGgufSpacePrefixKey, "");
  if (rule.empty()) return text::SpacePrefix::kEverySegmentAlways;
  if (rule == kGgufFirstSegment) return text::SpacePrefix::kFirstSegment;
  if (rule == kGgufEverySegment) return text::SpacePrefix::kEverySegment;
  throw Error(ErrorCode::kUnavailable,
              metadata.file_name() + ": " + std::string(kGgufSpacePrefixKey) + ": " +
                  json_quote(rule) + " is not supported by this build; first and every are");
}

}  // namespace

text::TokenTables gguf_token_tables(const GgufMetadata& metadata) {
  text::TokenTables tables;
  tables.name = metadata.file_name();
  tables.model = metadata.require_string("tokenizer.ggml.model");
  tables.pre = metadata.get_string("tokenizer.ggml.pre", "");
  tables.tokens = metadata.get_strings("tokenizer.ggml.tokens");
  tables.types = metadata.get_ints("tokenizer.ggml.token_type");
  tables.scores = metadata.get_doubles("tokenizer.ggml.scores");
  tables.merges = metadata.get_strings("tokenizer.ggml.merges");
  tables.bos_id = find_id(metadata, "tokenizer.ggml.bos_token_id");
  tables.eos_id = find_id(metadata, "tokenizer.ggml.eos_token_id");
  tables.unknown_id = find_id(metadata, "tokenizer.ggml.unknown_token_id");
  tables.adds_bos = find_bool(metadata, "tokenizer.ggml.add_bos_token");
  tables.adds_eos = find_bool(metadata, "tokenizer.ggml.add_eos_token");
  tables.adds_space_prefix = metadata.get_bool("tokenizer.ggml.add_space_prefix", true);
  tables.space_prefix = space_prefix_of(metadata);
  return tables;
}

std::string gguf_chat_template(const GgufMetadata& metadata) {
  return metadata.get_string("tokenizer.chat_template", "");
}

}  // namespace caption::weights
