// text/internal/pre_tokenization.h: how the byte-level BPE of GGUF files cuts a text into words, by
// the name of tokenizer.ggml.pre. Source: facts from ggml-org/llama.cpp, src/llama-vocab.cpp; the
// patterns are those of the tokenizer.json of Qwen2, Llama 3 and GPT-2.
#pragma once

#include <span>
#include <string_view>

namespace caption::text {

struct PreTokenization {
  std::string_view names[3];  // the first is the one that is written; it fills free places
  std::string_view pattern;
  bool is_nfc = false;
  bool ignores_merges = false;
  bool adds_bos = false;  // the default where the file says nothing
};

std::span<const PreTokenization> known_pre_tokenizations();

}  // namespace caption::text
