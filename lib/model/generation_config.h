// model/generation_config.h: the sampling settings that a checkpoint's authors recommend.
// Source: transformers 4.57 generation/configuration_utils.py (GenerationConfig).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sampling/sampling_params.h"

namespace caption::model {

// The keys of generation_config.json that this build supports. Keys that the file lacks, or sets to
// null, are empty; transformers then uses its defaults.
struct GenerationConfig {
  std::string file;  // path, with a GGUF file's key; empty: the model has no such file
  std::vector<std::int32_t> eos_ids;
  std::optional<bool> do_sample;      // false or absent means greedy, whatever the temperature
  std::optional<double> temperature;  // [0, 10]; > 0 where do_sample is true
  std::optional<double> top_p;        // [0, 1]
  std::optional<std::int64_t> top_k;  // 0, also for null in the file, means all tokens
  std::optional<double> repetition_penalty;          // (0, 10]
  std::optional<std::int64_t> no_repeat_ngram_size;  // 0 disables it
  std::optional<std::int64_t> num_beams;             // [1, 64]
  std::optional<double> length_penalty;              // [-10, 10]
  std::optional<sampling::EarlyStopping> early_stopping;
  std::optional<std::int64_t> min_new_tokens;
  std::optional<std::int64_t> max_new_tokens;  // a larger number than 65,536 counts as that one
  // Keys that affect transformers but not this build, such as "min_p", as spelled in the file,
  // sorted.
  std::vector<std::string> unsupported;
};

// Reads generation_config.json of a model's folder, or what its GGUF file holds of it; without
// either every member is empty. The keys max_length and min_length, which count the prompt, are
// ignored. Throws Error(kBadModel) naming file and key for a value that transformers would also
// refuse or that is outside the ranges above, and as the opening of a GGUF file does.
GenerationConfig read_generation_config(const std::filesystem::path& folder);

}  // namespace caption::model
