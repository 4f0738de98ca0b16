// model/text_family.h: the families of causal language models that run in captioners. Each is one
// file (llama.cpp, mistral.cpp, ...): it turns a config.json into a DecoderSpec, with the class
// defaults of transformers, because checkpoints omit keys that equal them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/decoder.h"

namespace caption::model {

struct TextConfig {
  DecoderSpec spec;
  std::vector<std::int32_t> eos_ids;  // empty when the configuration has none
};

struct TextFamily {
  std::string_view model_type;  // in config.json
  // Throws Error(kBadModel) for an impossible value and Error(kUnavailable) for a valid one that
  // this build cannot run; both name the file and the key.
  TextConfig (*parse)(const JsonObject& config);
};

// Class defaults of a family.
struct TextDefaults {
  std::int64_t intermediate = 0;
  std::int64_t num_kv_heads = 0;  // 0: as many as attention heads
  std::int64_t head_dim = 0;      // 0: hidden / heads, which must then be whole
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;
  double rope_theta = 10000;
  double rms_norm_eps = 1e-6;
};

// Parses the keys that the families share: sizes, tie_word_embeddings, rope, eos_token_id. A family
// sets the rest of the spec. Throws as TextFamily::parse.
TextConfig parse_decoder_config(const JsonObject& config, const TextDefaults& defaults);

// Parses the keys that Qwen2 and Qwen3 share, use_sliding_window, sliding_window, max_window_layers
// and layer_types, into spec.windows; the rest of the spec is known. `max_window_layers` is the
// class default of that key. Throws as TextFamily::parse.
void parse_layer_windows(const JsonObject& config, DecoderSpec& spec,
                         std::int64_t max_window_layers = 28);
// Sets spec.windows to `window` tokens in the layers where is_windowed is true. A window that holds
// the longest sequence is none.
void set_windows(std::int64_t window, const std::vector<bool>& is_windowed, DecoderSpec& spec);
// Returns, for each layer, whether `layer_types` says "sliding_attention"; nothing when the key is
// absent. Throws as TextFamily::parse.
std::optional<std::vector<bool>> parse_layer_types(const JsonObject& config,
                                                   std::int64_t num_layers);

// Adds a family to those of this build; `family` must outlive all uses. Call it before models are
// opened: not thread-safe.
void add_text_family(const TextFamily& family);
// Returns nullptr when there is none.
const TextFamily* find_text_family(std::string_view model_type);
// "llama, mistral, qwen2, qwen3"
std::string text_family_names();

// Parses the config of a language model, or the text_config of a multi-modal one, by its
// model_type; without one it is `default_type`'s. A text_config alone determines whether embeddings
// are tied; the enclosing configuration's tie_word_embeddings does not count (transformers 4.57
// tie_embeddings_and_encoder_decoder()). Throws as TextFamily::parse, and Error(kUnavailable) for
// another family.
TextConfig parse_text_config(const JsonObject& config, std::string_view default_type = "llama");

}  // namespace caption::model
