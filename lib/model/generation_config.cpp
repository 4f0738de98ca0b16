#include "model/generation_config.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <system_error>

#include "base/json.h"
#include "base/mend_advice.h"
#include "model/internal/config.h"
#include "model/internal/hub_model.h"
#include "model/internal/model_folder.h"
#include "weights/gguf_config.h"

namespace caption::model {
namespace {

// Keys that change what transformers generates, with the number that disables the effect; a key
// without such a number is disabled when it is null or absent.
struct UnsupportedKey {
  const char* name;
  std::optional<double> off;
};
constexpr std::array kUnsupported = {
    UnsupportedKey{"bad_words_ids", {}},
    UnsupportedKey{"begin_suppress_tokens", {}},
    UnsupportedKey{"diversity_penalty", 0.0},
    UnsupportedKey{"epsilon_cutoff", 0.0},
    UnsupportedKey{"eta_cutoff", 0.0},
    UnsupportedKey{"exponential_decay_length_penalty", {}},
    UnsupportedKey{"forced_bos_token_id", {}},
    UnsupportedKey{"forced_eos_token_id", {}},
    UnsupportedKey{"guidance_scale", 1.0},
    UnsupportedKey{"min_p", 0.0},
    UnsupportedKey{"num_beam_groups", 1.0},
    UnsupportedKey{"penalty_alpha", 0.0},
    UnsupportedKey{"sequence_bias", {}},
    UnsupportedKey{"stop_strings", {}},
    UnsupportedKey{"suppress_tokens", {}},
    UnsupportedKey{"typical_p", 1.0},
};

// The range of a number in the file: [min, max], or (min, max] if is_open.
struct Limits {
  double min;
  double max;
  bool is_open = false;
};

std::optional<double> find_number(const JsonObject& config, std::string_view key, Limits limits) {
  if (!config.has(key)) return std::nullopt;
  const double value = config.get_double(key, 0);
  const bool is_above = limits.is_open ? value > limits.min : value >= limits.min;
  if (is_above && value <= limits.max) return value;
  fail_bad_file(config.name() + ": " + std::string(key) + " is " + json_number(value) +
                "; expected a number " + (limits.is_open ? "above " : "from ") +
                json_number(limits.min) + (limits.is_open ? " and up to " : " to ") +
                json_number(limits.max));
}

std::optional<std::int64_t> find_count(const JsonObject& config, std::string_view key,
                                       std::int64_t min, std::int64_t max) {
  if (!config.has(key)) return std::nullopt;
  return config.require_int(key, min, max);
}

std::optional<sampling::EarlyStopping> find_early_stopping(const JsonObject& config) {
  using sampling::EarlyStopping;
  constexpr std::string_view kKey = "early_stopping";
  if (!config.has(kKey)) return std::nullopt;
  try {
    return config.get_bool(kKey, false) ? EarlyStopping::kYes : EarlyStopping::kNo;
  } catch (const Error&) {
    if (config.get_string(kKey, "") == "never") return EarlyStopping::kNever;
    throw;
  }
}

bool is_in_effect(const JsonObject& config, const UnsupportedKey& key) {
  if (!config.has(key.name)) return false;
  return !key.off || config.get_double(key.name, *key.off) != *key.off;
}

}  // namespace

GenerationConfig read_generation_config(const std::filesystem::path& folder) {
  return read_generation_config(ModelFolder(folder, ModelPart::kText));
}

GenerationConfig read_generation_config(const ModelFolder& folder) {
  const std::optional<JsonObject> found = folder.find_json(weights::kGenerationFile);
  if (!found) return {};
  const JsonObject& json = *found;
  constexpr std::int64_t kMaxTokens = 1 << 16;
  GenerationConfig config;
  config.file = json.name();
  config.eos_ids = parse_eos_ids(json);
  if (json.has("do_sample")) config.do_sample = json.get_bool("do_sample", false);
  config.temperature = find_number(
      json, "temperature", {.min = 0, .max = 10, .is_open = config.do_sample.value_or(false)});
  config.top_p = find_number(json, "top_p", {.min = 0, .max = 1});
  config.top_k = is_null(json, "top_k") ? 0 : find_count(json, "top_k", 0, 1 << 20);
  config.repetition_penalty =
      find_number(json, "repetition_penalty", {.min = 0, .max = 10, .is_open = true});
  config.no_repeat_ngram_size = find_count(json, "no_repeat_ngram_size", 0, 1024);
  config.num_beams = find_count(json, "num_beams", 1, 64);
  config.length_penalty = find_number(json, "length_penalty", {.min = -10, .max = 10});
  config.early_stopping = find_early_stopping(json);
  config.min_new_tokens = find_count(json, "min_new_tokens", 0, kMaxTokens);
  config.max_new_tokens =
      find_count(json, "max_new_tokens", 1, std::numeric_limits<std::int64_t>::max());
  if (config.max_new_tokens) config.max_new_tokens = std::min(*config.max_new_tokens, kMaxTokens);
  for (const UnsupportedKey& key : kUnsupported) {
    if (is_in_effect(json, key)) config.unsupported.emplace_back(key.name);
  }
  return config;
}

}  // namespace caption::model
