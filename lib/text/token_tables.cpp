#include "text/token_tables.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mend_advice.h"
#include "base/utf8.h"
#include "text/internal/pipeline_spec.h"
#include "text/internal/pipeline_tokenizer.h"
#include "text/internal/pre_tokenization.h"
#include "text/internal/sentencepiece_tokenizer.h"
#include "text/internal/tokenizer_files.h"
#include "text/internal/tokenizer_json.h"

namespace caption::text {
namespace {

[[noreturn]] void fail(const TokenTables& tables, const std::string& what) {
  throw Error(ErrorCode::kBadModel, tables.name + ": " + what + "; " + kConvertAgain);
}

std::string describe_token(const TokenTables& tables, std::size_t id) {
  return "token " + std::to_string(id) + ", " + json_quote_start(tables.tokens[id]);
}

std::int64_t type_of(const TokenTables& tables, std::size_t id) {
  return tables.types.empty() ? TokenTables::kNormal : tables.types[id];
}

void check_tables(const TokenTables& tables) {
  const std::size_t count = tables.tokens.size();
  if (count == 0 || count > static_cast<std::size_t>(kMaxTokenId) + 1) {
    fail(tables, "has " + counted(std::ssize(tables.tokens), "token") + "; expected 1 to " +
                     std::to_string(kMaxTokenId + 1));
  }
  if (!tables.types.empty() && tables.types.size() != count) {
    fail(tables, "has " + std::to_string(tables.types.size()) +
                     " types (tokenizer.ggml.token_type) of " +
                     counted(std::ssize(tables.tokens), "token"));
  }
  for (std::size_t id = 0; id < count; ++id) {
    const std::int64_t type = type_of(tables, id);
    if (type < TokenTables::kNormal || type > TokenTables::kByte) {
      fail(tables, describe_token(tables, id) + ", has the unknown type " + std::to_string(type));
    }
    if (!is_valid_utf8(tables.tokens[id])) {
      fail(tables, describe_token(tables, id) + ", is not valid UTF-8");
    }
  }
}

// The text of a token by an optional id; nothing without one.
std::optional<std::string> text_of(const TokenTables& tables, const char* key,
                                   std::optional<std::int64_t> id) {
  if (!id) return std::nullopt;
  if (*id < 0 || *id >= std::ssize(tables.tokens)) {
    fail(tables, std::string(key) + " is " + std::to_string(*id) + "; there are " +
                     counted(std::ssize(tables.tokens), "token"));
  }
  return std::string(tables.tokens[static_cast<std::size_t>(*id)]);
}

PreTokenization pre_tokenization_of(const TokenTables& tables) {
  for (const PreTokenization& known : known_pre_tokenizations()) {
    if (std::find(std::begin(known.names), std::end(known.names), tables.pre) !=
        std::end(known.names)) {
      return known;
    }
  }
  throw Error(ErrorCode::kUnavailable,
              tables.name + ": tokenizer.ggml.pre " + json_quote_start(tables.pre) +
                  " is not supported by this build; qwen2, deepseek-r1-qwen, llama-bpe and gpt-2 "
                  "are");
}

void add_tokens(const TokenTables& tables, PipelineSpec& spec) {
  for (std::size_t id = 0; id < tables.tokens.size(); ++id) {
    const std::int64_t type = type_of(tables, id);
    const std::string_view text = tables.tokens[id];
    if (type == TokenTables::kUnused) continue;
    if (text.empty()) fail(tables, describe_token(tables, id) + ", has no text");
    const bool is_added = type == TokenTables::kControl || type == TokenTables::kUserDefined ||
                          type == TokenTables::kUnknown;
    const bool is_new = is_added ? !spec.added_index.contains(std::string(text))
                                 : spec.vocabulary.insert(text, static_cast<TokenId>(id)) ==
                                       Vocabulary::Inserted::kYes;
    if (!is_new) fail(tables, describe_token(tables, id) + ", is there twice");
    if (!is_added) continue;
    spec.added_index.emplace(text, spec.added_tokens.size());
    spec.added_tokens.push_back({.content = std::string(text),
                                 .id = static_cast<TokenId>(id),
                                 .is_special = type != TokenTables::kUserDefined});
    spec.last_added_id = static_cast<TokenId>(id);
  }
}

BpeSpec bpe_of(const TokenTables& tables, const PreTokenization& pre,
               const Vocabulary& vocabulary) {
  BpeSpec bpe;
  bpe.alphabet = BpeSpec::Alphabet::kBytes;
  bpe.ignores_merges = pre.ignores_merges;
  bpe.merges.reserve(tables.merges.size());
  for (std::size_t i = 0; i < tables.merges.size(); ++i) {
    const std::string_view merge = tables.merges[i];
    const std::string where = tables.name + ": tokenizer.ggml.merges[" + std::to_string(i) + "]";
    const std::size_t space = merge.find(' ');
    if (space == std::string_view::npos || merge.find(' ', space + 1) != std::string_view::npos) {
      throw Error(ErrorCode::kBadModel, where +
                                            ": expected two tokens with a space between them, "
                                            "found " +
                                            json_quote_start(merge) + "; " + kConvertAgain);
    }
    add_merge(merge.substr(0, space), merge.substr(space + 1), where, vocabulary, bpe.merges);
  }
  return bpe;
}

std::unique_ptr<const Tokenizer> make_byte_level(const TokenTables& tables) {
  const PreTokenization pre = pre_tokenization_of(tables);
  PipelineSpec spec;
  spec.name = tables.name;
  add_tokens(tables, spec);
  spec.model = bpe_of(tables, pre, spec.vocabulary);
  if (pre.is_nfc) spec.normalizer.emplace_back();
  PreTokenizerStep split;
  split.pattern = pre.pattern;
  spec.pre_tokenizer.push_back(std::move(split));
  const auto bos = text_of(tables, "tokenizer.ggml.bos_token_id", tables.bos_id);
  const auto eos = text_of(tables, "tokenizer.ggml.eos_token_id", tables.eos_id);
  const auto add_end = [&](bool adds, const auto& text, const auto& id, auto& ids) {
    if (!adds) return;
    if (!text) fail(tables, "a token is to be added to every text, but its id is missing");
    ids.push_back(static_cast<TokenId>(*id));
  };
  add_end(tables.adds_bos.value_or(pre.adds_bos), bos, tables.bos_id, spec.prefix_ids);
  add_end(tables.adds_eos.value_or(false), eos, tables.eos_id, spec.suffix_ids);
  return make_pipeline_tokenizer(std::move(spec), bos.value_or(""), eos.value_or(""));
}

// Converters give the unknown piece the type of a control token where a configuration lists it as a
// special one. Its id is 0 unless the file says another.
void name_unknown_piece(const TokenTables& tables, std::vector<Piece>& pieces) {
  const auto is_unknown = [](const Piece& piece) { return piece.type == PieceType::kUnknown; };
  const std::int64_t id = tables.unknown_id.value_or(0);
  if (std::any_of(pieces.begin(), pieces.end(), is_unknown) || id < 0 || id >= std::ssize(pieces)) {
    return;
  }
  Piece& piece = pieces[static_cast<std::size_t>(id)];
  if (piece.type == PieceType::kControl) piece.type = PieceType::kUnknown;
}

// The pieces without the unused ones at the end, by which a converter makes the vocabulary as long
// as the model's embedding.
std::vector<Piece> pieces_of(const TokenTables& tables) {
  std::size_t count = tables.tokens.size();
  if (tables.scores.size() != count) {
    fail(tables, "has " + counted(std::ssize(tables.scores), "score") +
                     " (tokenizer.ggml.scores) of " + counted(std::ssize(tables.tokens), "token"));
  }
  while (count > 0 && type_of(tables, count - 1) == TokenTables::kUnused) --count;
  std::vector<Piece> pieces(count);
  for (std::size_t id = 0; id < count; ++id) {
    pieces[id] = {.text = std::string(tables.tokens[id]),
                  .score = static_cast<float>(tables.scores[id]),
                  .type = static_cast<PieceType>(type_of(tables, id))};
  }
  name_unknown_piece(tables, pieces);
  return pieces;
}

PrefixRule prefix_rule_of(const TokenTables& tables) {
  if (!tables.adds_space_prefix) return PrefixRule::kNone;
  switch (tables.space_prefix) {
    case SpacePrefix::kEverySegment: return PrefixRule::kEverySegment;
    case SpacePrefix::kFirstSegment: return PrefixRule::kFirstSegment;
    case SpacePrefix::kEverySegmentAlways: break;
  }
  return PrefixRule::kEverySegmentAlways;
}

std::unique_ptr<const Tokenizer> make_sentencepiece(const TokenTables& tables) {
  TokenizerConfig config;
  config.prefix_rule = prefix_rule_of(tables);
  config.adds_bos = tables.adds_bos.value_or(true);
  config.adds_eos = tables.adds_eos.value_or(false);
  config.bos_token = text_of(tables, "tokenizer.ggml.bos_token_id", tables.bos_id);
  config.eos_token = text_of(tables, "tokenizer.ggml.eos_token_id", tables.eos_id);
  return make_sentencepiece_tokenizer(pieces_of(tables), config, tables.name);
}

}  // namespace

std::unique_ptr<const Tokenizer> make_tokenizer(const TokenTables& tables) {
  check_tables(tables);
  if (tables.model == "gpt2") return make_byte_level(tables);
  if (tables.model == "llama") return make_sentencepiece(tables);
  throw Error(ErrorCode::kUnavailable, tables.name + ": tokenizer.ggml.model " +
                                           json_quote_start(tables.model) +
                                           " is not supported by this build; gpt2 and llama are");
}

}  // namespace caption::text
