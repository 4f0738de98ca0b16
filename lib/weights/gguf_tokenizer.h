// weights/gguf_tokenizer.h: the tokenizer and the chat template of a GGUF file.
#pragma once

#include <string>

#include "text/token_tables.h"
#include "weights/gguf_metadata.h"

namespace caption::weights {

// Returns the keys tokenizer.ggml.*, whose texts borrow the file. Throws Error(kBadModel) for one
// that is missing or of another type, by name. Source: ggml-org/llama.cpp,
// gguf-py/gguf/constants.py.
text::TokenTables gguf_token_tables(const GgufMetadata& metadata);

// The template of tokenizer.chat_template; empty when there is none.
std::string gguf_chat_template(const GgufMetadata& metadata);

}  // namespace caption::weights
