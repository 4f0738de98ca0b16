// Qwen3 (model_type "qwen3"). Source: transformers 4.57 configuration_qwen3.py.
#include "model/text_family.h"

namespace caption::model {
namespace {

TextConfig parse_qwen3(const JsonObject& config) {
  TextConfig text = parse_decoder_config(config, {.intermediate = 22016,
                                                  .num_kv_heads = 32,
                                                  .head_dim = 128,
                                                  .vocab = 151936,
                                                  .max_positions = 32768});
  text.spec.qk_norm = true;
  text.spec.qkv_bias = text.spec.o_bias = config.get_bool("attention_bias", false);
  parse_layer_windows(config, text.spec);
  return text;
}

}  // namespace

extern const TextFamily kQwen3;
const TextFamily kQwen3 = {.model_type = "qwen3", .parse = parse_qwen3};

}  // namespace caption::model
