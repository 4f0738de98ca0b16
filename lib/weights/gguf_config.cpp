#include "weights/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "weights/ggml_type.h"
#include "weights/internal/gguf_keys.h"
#include "weights/internal/gguf_names.h"
#include "weights/internal/safetensors.h"

namespace caption::weights {
namespace {

struct Architecture {
  std::string_view name;
  std::string_view model_type;
  bool has_mrope = false;
};
constexpr Architecture kArchitectures[] = {{"llama", "llama"},
                                           {"qwen2", "qwen2"},
                                           {"qwen2vl", "qwen2_5_vl_text", true},
                                           {"qwen3", "qwen3"},
                                           {"qwen3vl", "qwen3_vl_text", true}};

const Architecture& architecture_of(const GgufFile& file) {
  const std::string name = file.metadata().require_string("general.architecture");
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return architecture;
  }
  fail_unavailable(file, "general.architecture " + quote_name(name) +
                             " is no language model of this build; llama, qwen2, qwen2vl, qwen3 "
                             "and qwen3vl are");
}

constexpr double kDefaultTheta = 10000;

// The scaling of Llama 3.1 and later: only its factor differs between the models.
constexpr double kLowFreqFactor = 1;
constexpr double kHighFreqFactor = 4;
constexpr double kOriginalPositions = 8192;

// The divisor that the scaling of Llama 3.1 with `factor` gives a rotary frequency. Source:
// LlamaModel.generate_extra_tensors() of convert_hf_to_gguf.py.
double llama3_divisor(double frequency, double factor) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < kOriginalPositions / kHighFreqFactor) return 1;
  if (wavelength > kOriginalPositions / kLowFreqFactor) return factor;
  const double smooth =
      (kOriginalPositions / wavelength - kLowFreqFactor) / (kHighFreqFactor - kLowFreqFactor);
  return 1 / ((1 - smooth) / factor + smooth);
}

// The rope_scaling that the tensor of divisors stands for.
std::optional<std::string> scaling_of_divisors(const GgufFile& file, double theta,
                                               std::int64_t head_dim) {
  const GgufTensor* const tensor = file.find(kGgufRopeFactors);
  if (tensor == nullptr) return std::nullopt;
  if (tensor->rank != 1 || tensor->extents[0] != head_dim / 2 ||
      tensor->type->type != GgmlType::kF32) {
    fail_bad(file, "tensor " + quote_name(tensor->name) + ": expected " +
                       std::to_string(head_dim / 2) + " F32 numbers, half the width of a head");
  }
  std::vector<float> divisors(static_cast<std::size_t>(head_dim / 2));
  decode_rows({.type = GgmlType::kF32,
               .bytes = tensor->bytes,
               .num_columns = head_dim / 2,
               .first = 0,
               .count = 1},
              divisors.data());
  const double factor = divisors.back();
  constexpr double kTolerance = 1e-4;  // relative; the file's numbers were computed in f32
  for (std::size_t i = 0; i < divisors.size(); ++i) {
    const double exponent = 2 * static_cast<double>(i) / static_cast<double>(head_dim);
    const double expected = llama3_divisor(std::pow(theta, -exponent), factor);
    if (std::abs(divisors[i] - expected) <= kTolerance * expected) continue;
    fail_unavailable(file, "tensor " + quote_name(tensor->name) + ": number " + std::to_string(i) +
                               " is " + json_number(divisors[i]) +
                               ", that of Llama 3.1's scaling " + json_number(expected, 4) +
                               "; other scalings by frequency are not supported by this build; "
                               "run another model");
  }
  if (factor == 1) return std::nullopt;
  return GgufJson()
      .add_text("rope_type", "llama3")
      .add("factor", factor)
      .add("low_freq_factor", kLowFreqFactor)
      .add("high_freq_factor", kHighFreqFactor)
      .add("original_max_position_embeddings", static_cast<std::int64_t>(kOriginalPositions))
      .text();
}

// The object rope_scaling, or nothing.
std::optional<std::string> rope_scaling(const GgufFile& file, const GgufKeys& keys,
                                        const Architecture& architecture) {
  const std::string type = keys.metadata().get_string(keys("rope.scaling.type"), "none");
  GgufJson scaling;
  if (architecture.has_mrope) {
    if (type != "none") {
      fail_unavailable(file, keys("rope.scaling.type") + " " + quote_name(type) +
                                 " with positions along several axes is not supported by this "
                                 "build; none is");
    }
    std::vector<std::int64_t> sections = keys.metadata().get_ints(keys("rope.dimension_sections"));
    while (sections.size() > 3 && sections.back() == 0) sections.pop_back();
    if (sections.size() != 3)
      fail_bad(file, keys("rope.dimension_sections") + ": expected three, found " +
                         std::to_string(sections.size()));
    scaling.add_text("rope_type", "default").add_list("mrope_section", sections);
    if (architecture.name == "qwen3vl") scaling.add_bool("mrope_interleaved", true);
    return scaling.text();
  }
  if (type == "none") return std::nullopt;
  if (type != "linear" && type != "yarn") {
    fail_unavailable(file, keys("rope.scaling.type") + " " + quote_name(type) +
                               " is not supported by this build; none, linear and yarn are");
  }
  scaling.add_text("rope_type", type);
  scaling.add("factor", keys.metadata().require_double(keys("rope.scaling.factor")));
  if (type == "yarn") {
    for (const char* const key : {"yarn_beta_fast", "yarn_beta_slow"}) {
      const std::string full = std::string("rope.scaling.") + key;
      if (keys.has(full)) scaling.add(std::string_view(key).substr(5), keys.get_double(full, 0));
    }
    for (const char* const key :
         {"attn_factor", "yarn_attn_factor", "yarn_ext_factor", "yarn_log_multiplier"}) {
      if (!keys.has(std::string("rope.scaling.") + key)) continue;
      fail_unavailable(file, keys(std::string("rope.scaling.") + key) +
                                 " is not supported by this build; run a model without it");
    }
    if (keys.has("rope.scaling.original_context_length")) {
      scaling.add("original_max_position_embeddings",
                  keys.require_extent("rope.scaling.original_context_length"));
    }
  }
  return scaling.text();
}

void check_supported(const GgufFile& file, const GgufKeys& keys, std::int64_t head_dim) {
  if (keys.metadata().get_int(keys("expert_count"), 0, 0, kMaxExtent) > 0) {
    fail_unavailable(file, keys("expert_count") +
                               ": mixtures of experts are not supported by this build; run a "
                               "dense model");
  }
  const auto require_same = [&](std::string_view key, std::string_view what) {
    const std::int64_t found = keys.get_extent(key, head_dim);
    if (found == head_dim) return;
    fail_unavailable(file, keys(key) + " is " + std::to_string(found) + ", that of a head " +
                               std::to_string(head_dim) + "; " + std::string(what) +
                               " is not supported by this build; run another model");
  };
  require_same("attention.value_length", "another width of the values");
  require_same("rope.dimension_count", "rotating a part of a head");
}

std::vector<std::int64_t> end_ids(const GgufMetadata& metadata) {
  std::vector<std::int64_t> ids;
  for (const char* const key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (!metadata.has(key)) continue;
    const std::int64_t id = metadata.require_int(key, 0, kMaxExtent);
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

}  // namespace

std::string gguf_text_config(const GgufFile& file, std::string_view model_type) {
  const Architecture& architecture = architecture_of(file);
  const GgufKeys keys(file, std::string(architecture.name) + ".");
  const std::int64_t hidden = keys.require_extent("embedding_length");
  const std::int64_t heads = keys.require_extent("attention.head_count");
  const std::int64_t head_dim = keys.get_extent("attention.key_length", hidden / heads);
  check_supported(file, keys, head_dim);
  const GgufTensor& embedding = require_tensor(file, "token_embd.weight");
  const bool has_window = keys.has("attention.sliding_window");
  if (model_type.empty()) {
    model_type = architecture.name == "llama" && has_window ? "mistral" : architecture.model_type;
  }
  GgufJson config;
  config.add_text("model_type", model_type);
  if (has_window) {
    config.add("sliding_window", keys.require_extent("attention.sliding_window"));
    if (architecture.name != "llama") {
      fail_unavailable(file, keys("attention.sliding_window") +
                                 " is not supported by this build; run a model without it");
    }
  } else if (model_type == "mistral") {
    config.add_json("sliding_window", "null");
  }
  config.add("hidden_size", hidden)
      .add("intermediate_size", keys.require_extent("feed_forward_length"))
      .add("num_hidden_layers", keys.require_layers())
      .add("num_attention_heads", heads)
      .add("num_key_value_heads", keys.get_extent("attention.head_count_kv", heads))
      .add("head_dim", head_dim)
      .add("vocab_size", embedding.extents[0])
      .add("max_position_embeddings", keys.require_extent("context_length"))
      .add("rms_norm_eps", keys.metadata().require_double(keys("attention.layer_norm_rms_epsilon")))
      .add("rope_theta", keys.get_double("rope.freq_base", kDefaultTheta))
      .add_bool("tie_word_embeddings", file.find("output.weight") == nullptr)
      .add_bool("attention_bias", file.find("blk.0.attn_output.bias") != nullptr)
      .add_bool("mlp_bias", file.find("blk.0.ffn_down.bias") != nullptr);
  const double theta = keys.get_double("rope.freq_base", kDefaultTheta);
  const auto by_frequency = scaling_of_divisors(file, theta, head_dim);
  const auto scaling = rope_scaling(file, keys, architecture);
  if (by_frequency && scaling) {
    fail_unavailable(file, "tensor " + quote_name(kGgufRopeFactors) + " beside " +
                               keys("rope.scaling.type") +
                               " is not supported by this build; run another model");
  }
  if (by_frequency || scaling) {
    config.add_json("rope_scaling", by_frequency ? *by_frequency : *scaling);
  }
  const std::vector<std::int64_t> ids = end_ids(file.metadata());
  if (ids.size() == 1) config.add("eos_token_id", ids.front());
  if (ids.size() > 1) config.add_list("eos_token_id", ids);
  return config.text();
}

}  // namespace caption::weights
