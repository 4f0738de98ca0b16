// text/internal/sentencepiece_tokenizer.h: the tokenizer of the LLaMA family, SentencePiece BPE
// combined with added tokens.
// Source: same results as LlamaTokenizerFast of transformers 4.57.6
// (src/transformers/models/llama/tokenization_llama_fast.py, convert_slow_tokenizer.py), converted
// from tokenizer.model (tests/golden/text).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/internal/sentencepiece_file.h"
#include "text/internal/tokenizer_files.h"
#include "text/tokenizer.h"

namespace caption::text {

// Throws Error(kBadModel | kUnavailable), with the name of the file in the message.
std::unique_ptr<const Tokenizer> make_sentencepiece_tokenizer(const TokenizerFiles& files);

// The same for the pieces of a BPE model; `name` is that of their file, for messages.
std::unique_ptr<const Tokenizer> make_sentencepiece_tokenizer(const std::vector<Piece>& pieces,
                                                              const TokenizerConfig& config,
                                                              const std::string& name);

}  // namespace caption::text
