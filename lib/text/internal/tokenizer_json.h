// text/internal/tokenizer_json.h: reads tokenizer.json, and the files of which it is made.
//
// The files are untrusted. All functions throw Error(kBadModel) for impossible values and
// Error(kUnavailable) for parts that this build cannot run; messages name the file and the key.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "text/internal/pipeline_spec.h"

namespace caption::text {

PipelineSpec parse_tokenizer_json(std::string_view text, const std::string& name);

// The `model.type` of a tokenizer.json; "BPE" or "Unigram" by its members when it is not named.
std::string model_type_of_tokenizer_json(std::string_view text, const std::string& name);

// The parts of a tokenizer.json other than the model and the added tokens. `document` is the whole.
void parse_pipeline_steps(const JsonObject& document, PipelineSpec& spec);

// A BPE vocabulary {"token": id, ...} and a list of merges ["a b", ...] or [["a", "b"], ...].
void parse_bpe_vocabulary(std::string_view json, const std::string& name, Vocabulary& vocabulary);
void add_merge(std::string_view left, std::string_view right, const std::string& where,
               const Vocabulary& vocabulary, std::vector<BpeSpec::Merge>& merges);

// The pattern of GPT-2, which a ByteLevel pre-tokenizer with use_regex splits by.
std::string_view gpt2_pattern();
// The pattern of Qwen2, which neither its vocab.json and merges.txt nor a GGUF file holds.
std::string_view qwen2_pattern();

}  // namespace caption::text
