// model/internal/gguf_errors.h: errors about configurations that were made of GGUF metadata.
#pragma once

#include <utility>

#include "base/error.h"
#include "model/internal/model_folder.h"

namespace caption::model {

// Returns the error about config.json or preprocessor_config.json, which ModelFolder made of GGUF
// files, as one that names the GGUF file and its keys ("qwen3vl.attention.head_count" in the place
// of num_attention_heads), since the user has no such JSON file; any other error unchanged.
Error in_gguf_words(const Error& error, const ModelFolder& files);

// Returns what `make` returns. Throws as it does, with in_gguf_words().
template <class F>
auto with_gguf_words(const ModelFolder& files, F&& make) {
  try {
    return std::forward<F>(make)();
  } catch (const Error& error) {
    throw in_gguf_words(error, files);
  }
}

}  // namespace caption::model
