// model/internal/config.h: parsing of config.json for CLIP towers and Llama and Qwen3 decoders,
// with the class defaults of transformers (checkpoints omit keys that equal them) and every value
// validated. Source: transformers 4.57 configuration_{llama,qwen3,clip}.py.
//
// All parsers throw Error(kBadModel) for an impossible value and Error(kUnavailable) for a valid
// one that this build cannot run; both name the file and the key.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace caption::model {

// The activation of the vision tower's MLP or of the projector.
enum class Activation { kGelu, kQuickGelu };

struct ClipVisionConfig {
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t image_px = 0;
  std::int64_t patch_px = 0;
  Activation activation = Activation::kQuickGelu;
  float layer_norm_eps = 0;

  std::int64_t grid() const { return image_px / patch_px; }  // patches along an edge
  std::int64_t head_dim() const { return hidden / num_heads; }
};

struct TextConfig {
  std::string model_type;  // "llama" or "qwen3"
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;  // longest supported sequence, scaling included
  float rms_norm_eps = 0;
  double rope_theta = 0;
  double rope_factor = 1;             // linear position interpolation; 1 means none
  bool qkv_bias = false;              // q_proj, k_proj, v_proj and o_proj have biases
  bool mlp_bias = false;              // gate_proj, up_proj and down_proj have biases
  bool qk_norm = false;               // RMSNorm of every head of q and k, before the rotation
  bool tied_embeddings = false;       // the LM head is the embedding
  std::vector<std::int32_t> eos_ids;  // empty when the configuration has none
};

// "gelu" (exact, by erf) or "quick_gelu" under `key` of `config`.
Activation parse_activation(const JsonObject& config, std::string_view key,
                            std::string_view fallback);
ClipVisionConfig parse_clip_vision_config(const JsonObject& config);
// Parses the text_config of a multi-modal model. It alone determines whether embeddings are tied;
// the enclosing configuration's tie_word_embeddings does not count (transformers 4.57
// tie_embeddings_and_encoder_decoder()).
TextConfig parse_text_config(const JsonObject& config);

// Returns how many of the tower's layers must run so that the output is hidden_states[layer];
// negative indices count from the end: -1 is the output of the last layer.
std::int64_t layers_to_run(const ClipVisionConfig& config, std::int64_t vision_feature_layer);

// Throws Error(kUnavailable) when `config` says that the weights are quantised.
void reject_quantised(const JsonObject& config);

// Returns eos_token_id, a number or a list; empty when the key is absent.
std::vector<std::int32_t> parse_eos_ids(const JsonObject& config);

}  // namespace caption::model
