#include "model/internal/config.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "base/mend_advice.h"

namespace caption::model {
namespace {

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 20;  // limit of widths and of the vocabulary
constexpr std::int64_t kMaxLayers = 1024;

std::int64_t get_extent(const JsonObject& config, std::string_view key, std::int64_t fallback) {
  return config.get_int(key, fallback, 1, kMaxExtent);
}

float get_eps(const JsonObject& config, std::string_view key, double fallback) {
  const double eps = config.get_double(key, fallback);
  if (!(eps > 0) || eps > 1)
    throw_bad(config, std::string(key) + " must be in (0, 1], found " + json_number(eps));
  return static_cast<float>(eps);
}

}  // namespace

void throw_bad(const JsonObject& config, const std::string& what) {
  fail_bad_file(config.name() + ": " + what);
}

void throw_unavailable(const JsonObject& config, const std::string& what) {
  throw Error(ErrorCode::kUnavailable, config.name() + ": " + what);
}

bool is_null(const JsonObject& config, std::string_view key) {
  const std::vector<std::string> keys = config.keys();
  return !config.has(key) && std::find(keys.begin(), keys.end(), key) != keys.end();
}

TextConfig parse_decoder_config(const JsonObject& config, const TextDefaults& defaults) {
  TextConfig text;
  DecoderSpec& spec = text.spec;
  spec.hidden = get_extent(config, "hidden_size", 4096);
  spec.intermediate = get_extent(config, "intermediate_size", defaults.intermediate);
  spec.num_layers = config.get_int("num_hidden_layers", 32, 1, kMaxLayers);
  spec.num_heads = get_extent(config, "num_attention_heads", 32);
  const bool has_default = defaults.num_kv_heads > 0 && !is_null(config, "num_key_value_heads");
  spec.num_kv_heads = get_extent(config, "num_key_value_heads",
                                 has_default ? defaults.num_kv_heads : spec.num_heads);
  const bool splits_evenly = spec.hidden % spec.num_heads == 0;
  if (defaults.head_dim == 0 && !config.has("head_dim") && !splits_evenly) {
    throw_bad(config, "hidden_size " + std::to_string(spec.hidden) + " is no multiple of " +
                          std::to_string(spec.num_heads) + " attention heads");
  }
  spec.head_dim = config.get_int(
      "head_dim", defaults.head_dim > 0 ? defaults.head_dim : spec.hidden / spec.num_heads, 1,
      4096);
  if (spec.num_heads * spec.head_dim > kMaxExtent) {
    throw_bad(config, std::to_string(spec.num_heads) + " attention heads of " +
                          std::to_string(spec.head_dim) + " numbers are wider than " +
                          std::to_string(kMaxExtent));
  }
  spec.vocab = config.get_int("vocab_size", defaults.vocab, 1, kMaxExtent * 16);
  spec.rms_norm_eps = get_eps(config, "rms_norm_eps", defaults.rms_norm_eps);
  spec.tied_embeddings = config.get_bool("tie_word_embeddings", false);
  if (spec.num_heads % spec.num_kv_heads != 0) {
    throw_bad(config, std::to_string(spec.num_heads) + " attention heads are no multiple of " +
                          std::to_string(spec.num_kv_heads) + " key-value heads");
  }
  if (spec.head_dim % 2 != 0) {
    throw_bad(config, "head_dim " + std::to_string(spec.head_dim) +
                          " is odd; a rotary embedding turns pairs");
  }
  const std::string act = config.get_string("hidden_act", "silu");
  if (act != "silu") {
    throw_unavailable(config, "hidden_act \"" + act + "\" is not supported by this build; silu is");
  }
  const std::int64_t max_positions =
      config.get_int("max_position_embeddings", defaults.max_positions, 1, std::int64_t{1} << 28);
  spec.rope = parse_rope(config, max_positions, defaults.rope_theta);
  spec.max_positions = rope_max_positions(spec.rope, max_positions);
  text.eos_ids = parse_eos_ids(config);
  return text;
}

std::vector<std::int32_t> parse_eos_ids(const JsonObject& config) {
  std::vector<std::int32_t> ids;
  std::unordered_set<std::int32_t> known;
  for (const std::int64_t id : config.get_ints("eos_token_id")) {
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
      throw_bad(config, "eos_token_id " + std::to_string(id) + " is no token id");
    }
    const auto token = static_cast<std::int32_t>(id);
    if (known.insert(token).second) ids.push_back(token);
  }
  return ids;
}

}  // namespace caption::model
