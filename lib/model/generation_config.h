// model/generation_config.h: what a checkpoint's authors say of how to sample from it.
// Source: transformers 4.57 generation/configuration_utils.py (GenerationConfig).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace caption::model {

// The keys of generation_config.json that this build knows; those that the file leaves out, or sets
// to null, are absent: transformers then takes its own defaults.
struct GenerationConfig {
  enum class EarlyStopping { kFalse, kTrue, kNever };

  std::string file;  // for messages; empty: the folder has none
  std::vector<std::int32_t> eos_ids;
  std::optional<bool> do_sample;             // false and absent: greedy, whatever the temperature
  std::optional<double> temperature;         // [0, 10]; above 0 where do_sample is true
  std::optional<double> top_p;               // [0, 1]
  std::optional<std::int64_t> top_k;         // 0, also for a null in the file: all
  std::optional<double> repetition_penalty;  // (0, 10]
  std::optional<std::int64_t> no_repeat_ngram_size;  // 0: off
  std::optional<std::int64_t> num_beams;             // [1, 64]
  std::optional<double> length_penalty;              // [-10, 10]
  std::optional<EarlyStopping> early_stopping;
  std::optional<std::int64_t> min_new_tokens;
  std::optional<std::int64_t> max_new_tokens;
  // Keys with an effect in transformers that this build does not have ("min_p"), as the file has
  // them, sorted.
  std::vector<std::string> unsupported;
};

// Reads generation_config.json of a model's folder; without that file every member is empty. The
// keys max_length and min_length, which count the prompt, are not read.
// Throws Error(kBadModel) naming file and key for a value that transformers would refuse too, or
// that is beyond the limits above.
GenerationConfig read_generation_config(const std::filesystem::path& folder);

}  // namespace caption::model
