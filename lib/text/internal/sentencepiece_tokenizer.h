// text/internal/sentencepiece_tokenizer.h: the LLaMA family's tokenizer, SentencePiece BPE with
// added tokens around it.
// Source: models.md §6.1, §6.2; same results as LlamaTokenizerFast of transformers 4.57.6 converted
// from tokenizer.model (tests/golden/text).
#pragma once

#include <memory>

#include "text/internal/tokenizer_files.h"
#include "text/tokenizer.h"

namespace caption::text {

// Throws Error(kBadModel | kUnavailable) that names the file.
std::unique_ptr<const Tokenizer> make_sentencepiece_tokenizer(const TokenizerFiles& files);

}  // namespace caption::text
