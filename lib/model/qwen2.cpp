// Qwen2 and Qwen2.5 (model_type "qwen2"). Source: transformers 4.57 configuration_qwen2.py and
// modeling_qwen2.py, which has biases in q_proj, k_proj and v_proj whatever the configuration says.
#include "model/text_family.h"

namespace caption::model {
namespace {

TextConfig parse_qwen2(const JsonObject& config) {
  TextConfig text = parse_decoder_config(
      config, {.intermediate = 22016, .num_kv_heads = 32, .vocab = 151936, .max_positions = 32768});
  text.spec.qkv_bias = true;
  parse_layer_windows(config, text.spec);
  return text;
}

}  // namespace

extern const TextFamily kQwen2;
const TextFamily kQwen2 = {.model_type = "qwen2", .parse = parse_qwen2};

}  // namespace caption::model
