// text/token_tables.h: a tokenizer as lists of tokens, scores and merges, the form in which GGUF
// files hold it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace caption::text {

// SentencePiece BPE: where a space is put before a text's parts between added tokens. llama.cpp has
// the first rule alone.
enum class SpacePrefix {
  kEverySegmentAlways,  // before every part
  kEverySegment,        // before every part that does not begin with a space
  kFirstSegment,        // before the part at the start of the text, unless it begins with a space
};

// The texts are borrowed until make_tokenizer() returns.
struct TokenTables {
  // The types of tokens, as llama.cpp numbers them.
  enum Type : std::int64_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,      // an added token that decode() leaves out
    kUserDefined = 4,  // an added token that is text
    kUnused = 5,
    kByte = 6,
  };

  std::string name;  // the file's name, for messages
  // "gpt2": byte-level BPE by ranked merges. "llama": SentencePiece BPE by scores.
  std::string model;
  // How gpt2 normalises a text and cuts it into words: "qwen2" (also deepseek-r1-qwen), "llama-bpe"
  // (also llama3, llama-v3) or "gpt-2".
  std::string pre;
  std::vector<std::string_view> tokens;  // indexed by id
  std::vector<std::int64_t> types;       // one for each token; without any, all are normal
  std::vector<double> scores;            // llama: one for each token
  std::vector<std::string_view> merges;  // gpt2: "a b", ascending by rank
  std::optional<std::int64_t> bos_id;
  std::optional<std::int64_t> eos_id;
  std::optional<std::int64_t> unknown_id;  // llama: counts where no token has the type kUnknown
  // Whether texts begin with bos_id and end with eos_id. The default is bos_id alone, which gpt2
  // has for llama-bpe only.
  std::optional<bool> adds_bos;
  std::optional<bool> adds_eos;
  bool adds_space_prefix = true;  // llama: whether space_prefix counts
  SpacePrefix space_prefix = SpacePrefix::kEverySegmentAlways;
};

// Gives the ids of Hugging Face's tokenizer of the same model: the normalisation of "qwen2" (NFC),
// which the lists do not hold, is that of its tokenizer.json. Throws Error(kUnavailable) for
// another `model` or `pre`, by name; Error(kBadModel) for lists that do not fit together, naming
// the token. Source: facts from ggml-org/llama.cpp, src/llama-vocab.cpp and convert_hf_to_gguf.py.
std::unique_ptr<const Tokenizer> make_tokenizer(const TokenTables& tables);

}  // namespace caption::text
