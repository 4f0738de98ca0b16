// Mistral (model_type "mistral"). Source: transformers 4.57 configuration_mistral.py and
// modeling_mistral.py: no biases, and every layer has the window of sliding_window.
#include "base/error.h"
#include "base/mend_advice.h"
#include "model/internal/config.h"
#include "model/text_family.h"

namespace caption::model {
namespace {

constexpr std::int64_t kDefaultWindow = 4096;

TextConfig parse_mistral(const JsonObject& config) {
  TextConfig text = parse_decoder_config(config, {.intermediate = 14336,
                                                  .num_kv_heads = 8,
                                                  .vocab = 32000,
                                                  .max_positions = std::int64_t{4096} * 32});
  DecoderSpec& spec = text.spec;
  const bool is_windowed = !is_null(config, "sliding_window");
  const std::vector<bool> layers(static_cast<std::size_t>(spec.num_layers), is_windowed);
  if (parse_layer_types(config, spec.num_layers).value_or(layers) != layers) {
    fail_unsupported(config.name() +
                     ": layer_types: a mistral model of this build has the window of "
                     "sliding_window in every layer, or none");
  }
  set_windows(config.get_int("sliding_window", kDefaultWindow, 1, std::int64_t{1} << 28), layers,
              spec);
  if (text.eos_ids.empty()) text.eos_ids = {2};
  return text;
}

}  // namespace

extern const TextFamily kMistral;
const TextFamily kMistral = {.model_type = "mistral", .parse = parse_mistral};

}  // namespace caption::model
