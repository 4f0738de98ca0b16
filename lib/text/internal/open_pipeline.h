// text/internal/open_pipeline.h: a tokenizer from tokenizer.json, or from vocab.json and
// merges.txt, as transformers loads it, that is with what tokenizer_config.json changes. Source:
// transformers 4.57.6, src/transformers/tokenization_utils_fast.py, convert_slow_tokenizer.py
// (Qwen2Converter, GPT2Converter) and the classes named in the .cpp.
#pragma once

#include <memory>
#include <string>

#include "text/internal/pipeline_spec.h"
#include "text/internal/tokenizer_files.h"
#include "text/tokenizer.h"

namespace caption::text {

// What a tokenizer is made of. The texts of the first and the last token are empty without one.
struct Pipeline {
  PipelineSpec spec;
  std::string bos_token;
  std::string eos_token;
};

// `files.tokenizer_json`, or else `files.vocab_json` and `files.merges_txt` must be there. Throws
// Error(kBadModel | kUnavailable), with the name of the file in the message.
Pipeline read_pipeline(TokenizerFiles files);
std::unique_ptr<const Tokenizer> open_pipeline(TokenizerFiles files);

}  // namespace caption::text
