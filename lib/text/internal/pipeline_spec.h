// text/internal/pipeline_spec.h: a tokenizer of Hugging Face's `tokenizers` library, as data.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/internal/added_tokens.h"
#include "text/internal/bpe_model.h"
#include "text/internal/normalizer.h"
#include "text/internal/pre_tokenizer.h"
#include "text/internal/unigram_model.h"
#include "text/internal/vocabulary.h"

namespace caption::text {

// How tokens become text.
struct DecoderSpec {
  enum class Kind {
    kByteLevel,  // a token whose characters are all of the byte-level alphabet is those bytes
    kPieces,     // the texts of the tokens, after the changes below
    kMetaspace,  // the same with `mark` for spaces; at the start of a text it may stand for nothing
  };
  Kind kind = Kind::kByteLevel;
  // kPieces
  std::vector<std::pair<std::string, std::string>> replacements;  // from and to, in this order
  bool falls_back_to_bytes = false;                               // <0x00>..<0xFF> are bytes
  bool strips_leading_space = false;                              // one space
  // kMetaspace
  std::string mark;
  bool strips_first_marks = false;  // all those of the first token
};

struct PipelineSpec {
  std::string name;  // the name of the file, for messages
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  bool is_plain_byte_level = false;  // the pre-tokenizer is a ByteLevel alone
  Vocabulary vocabulary;             // the model's, without added tokens
  std::variant<BpeSpec, UnigramSpec> model;
  DecoderSpec decoder;
  std::vector<TokenId> prefix_ids;       // the ids that stand before every text
  std::vector<TokenId> suffix_ids;       // the ids that stand after every text
  std::vector<AddedToken> added_tokens;  // with their ids; contents are distinct
  std::unordered_map<std::string, std::size_t> added_index;  // content -> index in added_tokens
  TokenId last_added_id = -1;                                // the largest id of an added token
};

// Adds a token as the reference does: one that is known by its content keeps its id, another gets
// the id after the last one; an empty one is ignored. A token that was special stays special.
// Throws Error(kBadModel) when `token.id` is not -1 and another id is due.
// Source: add_tokens() of Hugging Face tokenizers 0.22, tokenizers/src/tokenizer/
// added_vocabulary.rs.
void add_token(PipelineSpec& spec, AddedToken token, const std::string& where);

}  // namespace caption::text
