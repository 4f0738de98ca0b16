// text/internal/pipeline_tokenizer.h: a tokenizer that runs a PipelineSpec: added tokens are taken
// out, the text between them is normalised, cut into words, and each word tokenised.
// Source: same results as Hugging Face tokenizers 0.22 (scripts/compare_tokenizers.py).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "text/internal/pipeline_spec.h"
#include "text/tokenizer.h"

namespace caption::text {

// Throws Error(kUnavailable) for a pattern that this build cannot run, Error(kBadModel) for ids
// without a token. `bos_token` and `eos_token` are contents; an unknown one has no id.
std::unique_ptr<const Tokenizer> make_pipeline_tokenizer(PipelineSpec spec,
                                                         const std::string& bos_token,
                                                         const std::string& eos_token);

}  // namespace caption::text
