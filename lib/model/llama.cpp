// Llama (model_type "llama"). Source: transformers 4.57 configuration_llama.py.
#include "model/text_family.h"

namespace caption::model {
namespace {

TextConfig parse_llama(const JsonObject& config) {
  TextConfig text =
      parse_decoder_config(config, {.intermediate = 11008, .vocab = 32000, .max_positions = 2048});
  text.spec.qkv_bias = text.spec.o_bias = config.get_bool("attention_bias", false);
  text.spec.mlp_bias = config.get_bool("mlp_bias", false);
  if (text.eos_ids.empty()) text.eos_ids = {2};
  return text;
}

}  // namespace

extern const TextFamily kLlama;
const TextFamily kLlama = {.model_type = "llama", .parse = parse_llama};

}  // namespace caption::model
