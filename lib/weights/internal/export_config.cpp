#include "weights/internal/export_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <system_error>

#include "base/error.h"
#include "base/mend_advice.h"
#include "base/open_file.h"
#include "weights/internal/safetensors.h"

namespace caption::weights {
namespace {

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 24;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 28;

// The class defaults of transformers 4.57 that hub configurations may leave out.
struct TextClass {
  std::string_view model_type;
  std::string_view architecture;
  std::int64_t intermediate;
  std::int64_t num_kv_heads;  // 0: as many as heads
  std::int64_t head_dim;      // 0: hidden_size / heads
  std::int64_t vocab;
  std::int64_t max_positions;
  double theta = 1e4;
  double rms_norm_eps = 1e-6;
  std::vector<std::int64_t> sections = {};
};

const std::vector<TextClass>& text_classes() {
  static const std::vector<TextClass> kClasses = {
      {"llama", "llama", 11008, 0, 0, 32000, 2048},
      {"mistral", "llama", 14336, 8, 0, 32000, 131072},
      {"qwen2", "qwen2", 22016, 32, 0, 151936, 32768},
      {"qwen3", "qwen3", 22016, 32, 128, 151936, 32768},
      {"qwen2_5_vl_text", "qwen2vl", 29568, 8, 0, 152064, 32768, 1e6, 1e-5, {16, 24, 24}},
      {"qwen3_vl_text", "qwen3vl", 22016, 32, 128, 151936, 128000, 5e6, 1e-6, {24, 20, 20}}};
  return kClasses;
}

bool is_null(const JsonObject& config, std::string_view key) {
  const std::vector<std::string> keys = config.keys();
  return !config.has(key) && std::find(keys.begin(), keys.end(), key) != keys.end();
}

const TextClass& class_of(const JsonObject& config, std::string_view model_type) {
  for (const TextClass& known : text_classes()) {
    if (known.model_type == model_type) return known;
  }
  refuse_export(config, "model_type " + json_quote(model_type) +
                            ": GGUF files are made of the language models llama, mistral, qwen2 "
                            "and qwen3");
}

// Scalings and their keys that the reader of GGUF files knows.
void read_scaling(const JsonObject& scaling, std::int64_t max_positions, ExportedRope& rope) {
  const std::string old_name = scaling.get_string("type", "");
  const std::string type = scaling.get_string("rope_type", old_name);
  // "dynamic" scales nothing up to max_position_embeddings, beyond which nothing runs here.
  const bool is_plain = type.empty() || type == "default" || type == "dynamic";
  if (is_plain || (type == "mrope" && scaling.has("mrope_section"))) return;
  if (type != "linear" && type != "yarn" && type != "llama3") {
    refuse_export(scaling, "rope_type " + json_quote(type) +
                               " has no form in a GGUF file; linear, yarn and llama3 have");
  }
  if (scaling.has("mrope_section")) {
    refuse_export(scaling, "rope_type " + json_quote(type) +
                               " with positions along several axes has no form in a GGUF file");
  }
  rope.scaling = type;
  rope.factor = scaling.get_double("factor", 1);
  rope.original_positions =
      scaling.get_int("original_max_position_embeddings", max_positions, 1, kMaxPositions);
  for (const char* const key : {"attention_factor", "mscale", "mscale_all_dim"}) {
    if (type == "yarn" && scaling.has(key)) {
      refuse_export(scaling, std::string(key) + " has no form in a GGUF file that is read here");
    }
  }
  if (!scaling.get_bool("truncate", true)) {
    refuse_export(scaling, "truncate false has no form in a GGUF file");
  }
  if (scaling.has("beta_fast")) rope.beta_fast = scaling.get_double("beta_fast", 32);
  if (scaling.has("beta_slow")) rope.beta_slow = scaling.get_double("beta_slow", 1);
  const bool is_of_llama3 = scaling.get_double("low_freq_factor", 1) == 1 &&
                            scaling.get_double("high_freq_factor", 4) == 4 &&
                            rope.original_positions == 8192;
  if (type == "llama3" && !is_of_llama3) {
    refuse_export(scaling,
                  "the scaling differs from that of Llama 3.1 (low_freq_factor 1, "
                  "high_freq_factor 4, original_max_position_embeddings 8192), which GGUF files "
                  "hold");
  }
}

ExportedRope read_rope(const JsonObject& config, const TextClass& known, std::int64_t positions) {
  ExportedRope rope;
  const auto parameters = config.get_object("rope_parameters");
  const bool is_new = parameters && parameters->has("rope_theta");
  rope.theta = (is_new ? *parameters : config).get_double("rope_theta", known.theta);
  if (config.get_double("partial_rotary_factor", 1) != 1) {
    refuse_export(config, "partial_rotary_factor: rotating a part of a head is not supported");
  }
  const auto scaling = parameters ? parameters : config.get_object("rope_scaling");
  if (scaling) read_scaling(*scaling, positions, rope);
  return rope;
}

std::vector<std::int32_t> read_sections(const JsonObject& config, const TextClass& known) {
  auto scaling = config.get_object("rope_parameters");
  if (!scaling) scaling = config.get_object("rope_scaling");
  std::vector<std::int64_t> found = scaling ? scaling->get_ints("mrope_section") : known.sections;
  if (found.empty()) found = known.sections;
  if (found.size() != 3) refuse_export(config, "mrope_section: expected three numbers");
  std::vector<std::int32_t> sections(found.begin(), found.end());
  sections.push_back(0);
  return sections;
}

void read_window(const JsonObject& config, std::string_view model_type, ExportedText& text) {
  constexpr std::int64_t kMistralWindow = 4096;
  if (model_type == "mistral" && !is_null(config, "sliding_window")) {
    text.window = config.get_int("sliding_window", kMistralWindow, 1, kMaxPositions);
  }
  if (model_type != "mistral" && config.get_bool("use_sliding_window", false)) {
    refuse_export(config, "use_sliding_window true has no form in a GGUF file that is read here");
  }
}

ExportedText read_text(const JsonObject& config, std::string_view model_type) {
  const TextClass& known = class_of(config, model_type);
  const auto extent = [&](std::string_view key, std::int64_t fallback) {
    return config.get_int(key, fallback, 1, kMaxExtent);
  };
  ExportedText text;
  text.architecture = known.architecture;
  text.hidden = extent("hidden_size", 4096);
  text.intermediate = extent("intermediate_size", known.intermediate);
  text.num_layers = extent("num_hidden_layers", 32);
  text.num_heads = extent("num_attention_heads", 32);
  const bool has_default = known.num_kv_heads > 0 && !is_null(config, "num_key_value_heads");
  text.num_kv_heads =
      extent("num_key_value_heads", has_default ? known.num_kv_heads : text.num_heads);
  text.head_dim = extent("head_dim", known.head_dim > 0
                                         ? known.head_dim
                                         : std::max<std::int64_t>(1, text.hidden / text.num_heads));
  text.vocab = extent("vocab_size", known.vocab);
  text.max_positions =
      config.get_int("max_position_embeddings", known.max_positions, 1, kMaxPositions);
  text.rms_norm_eps = config.get_double("rms_norm_eps", known.rms_norm_eps);
  text.rope = read_rope(config, known, text.max_positions);
  if (!known.sections.empty()) text.sections = read_sections(config, known);
  text.is_tied = config.get_bool("tie_word_embeddings", false);
  text.states_head_dim = config.has("head_dim") || !known.architecture.starts_with("qwen2");
  require_value(config, "hidden_act", "silu", "silu");
  read_window(config, model_type, text);
  return text;
}

JsonObject require_part(const JsonObject& config, std::string_view key) {
  if (auto part = config.get_object(key)) return *part;
  fail_bad_file(config.name() + ": " + std::string(key) + " is missing");
}

struct FamilyName {
  std::string_view model_type;
  ExportFamily family;
  std::string_view text_key;  // key of the object that configures the text model; "" for the root
  // The model_type of that configuration where it says none or, if `is_fixed`, whatever it says.
  std::string_view text_type;
  bool is_fixed = false;
};
constexpr FamilyName kFamilies[] = {
    {"llama", ExportFamily::kText, "", "llama"},
    {"mistral", ExportFamily::kText, "", "mistral"},
    {"qwen2", ExportFamily::kText, "", "qwen2"},
    {"qwen3", ExportFamily::kText, "", "qwen3"},
    {"qwen2_5_vl", ExportFamily::kQwen25Vl, "text_config", "qwen2_5_vl_text", true},
    {"qwen3_vl", ExportFamily::kQwen3Vl, "text_config", "qwen3_vl_text", true},
    {"internvl", ExportFamily::kInternVl, "text_config", "qwen2"},
    {"internvl_chat", ExportFamily::kInternVlChat, "llm_config", "qwen2"},
    {"llava_next_video", ExportFamily::kLlava, "text_config", "llama"}};

const FamilyName& family_of(const JsonObject& config) {
  const std::string model_type = config.require_string("model_type");
  std::string names;
  for (const FamilyName& known : kFamilies) {
    if (known.model_type == model_type) return known;
    names += (names.empty() ? "" : ", ") + std::string(known.model_type);
  }
  refuse_export(config, "model_type " + json_quote(model_type) +
                            ": GGUF files are made of models of the types " + names);
}

}  // namespace

void refuse_export(const JsonObject& config, const std::string& what) {
  throw Error(ErrorCode::kUnavailable, config.name() + ": " + what);
}

void require_value(const JsonObject& config, std::string_view key, std::string_view fallback,
                   std::string_view expected) {
  const std::string found = config.get_string(key, fallback);
  if (found == expected) return;
  refuse_export(config, std::string(key) + " " + json_quote(found) +
                            " has no form in a GGUF file; " + std::string(expected) + " has");
}

ExportedModel read_exported_model(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  if (!is_present(path)) {
    throw Error(ErrorCode::kBadModel, folder.string() +
                                          ": config.json is missing; GGUF files are made of a "
                                          "model's folder as transformers saves it: copy or "
                                          "download it whole");
  }
  const JsonObject config = JsonObject::open(path, ErrorCode::kBadModel);
  const FamilyName& known = family_of(config);
  // Hub configurations of Qwen2.5-VL have the text model's keys in the root.
  const bool is_in_root = known.text_key.empty() || (known.family == ExportFamily::kQwen25Vl &&
                                                     !config.get_object(known.text_key));
  const JsonObject text = is_in_root ? config : require_part(config, known.text_key);
  const std::string said = text.get_string("model_type", known.text_type);
  ExportedModel model{.family = known.family,
                      .text = read_text(text, known.is_fixed ? known.text_type : said),
                      .config = config,
                      .text_config = text};
  if (known.family == ExportFamily::kQwen3Vl) {
    const JsonObject vision = require_part(config, "vision_config");
    model.text.num_deepstack_layers = vision.has("deepstack_visual_indexes")
                                          ? std::ssize(vision.get_ints("deepstack_visual_indexes"))
                                          : std::int64_t{3};
  }
  return model;
}

void add_text_fields(const ExportedText& text, GgufFields& fields) {
  const auto key = [&](std::string_view name) {
    return text.architecture + "." + std::string(name);
  };
  const auto add = [&](std::string_view name, std::int64_t value) {
    fields.add(key(name), static_cast<std::uint32_t>(value));
  };
  add("block_count", text.num_layers);
  add("context_length", text.max_positions);
  add("embedding_length", text.hidden);
  add("feed_forward_length", text.intermediate);
  add("attention.head_count", text.num_heads);
  add("attention.head_count_kv", text.num_kv_heads);
  if (text.rope.scaling == "linear" || text.rope.scaling == "yarn") {
    fields.add_text(key("rope.scaling.type"), text.rope.scaling)
        .add(key("rope.scaling.factor"), static_cast<float>(text.rope.factor));
  }
  if (text.rope.scaling == "yarn") {
    add("rope.scaling.original_context_length", text.rope.original_positions);
    if (text.rope.beta_fast) {
      fields.add(key("rope.scaling.yarn_beta_fast"), static_cast<float>(*text.rope.beta_fast));
    }
    if (text.rope.beta_slow) {
      fields.add(key("rope.scaling.yarn_beta_slow"), static_cast<float>(*text.rope.beta_slow));
    }
  }
  if (!text.sections.empty()) fields.add_list(key("rope.dimension_sections"), text.sections);
  fields.add(key("rope.freq_base"), static_cast<float>(text.rope.theta))
      .add(key("attention.layer_norm_rms_epsilon"), static_cast<float>(text.rms_norm_eps));
  if (text.states_head_dim) {
    add("attention.key_length", text.head_dim);
    add("attention.value_length", text.head_dim);
  }
  if (text.window) add("attention.sliding_window", *text.window);
  if (text.architecture == "llama") {
    add("vocab_size", text.vocab);
    add("rope.dimension_count", text.head_dim);
  }
  if (text.num_deepstack_layers) add("n_deepstack_layers", *text.num_deepstack_layers);
}

std::vector<float> llama3_divisors(const ExportedText& text) {
  constexpr float kShortest = 8192.0F / 4;  // the wavelengths between which the divisor grows
  constexpr float kLongest = 8192.0F / 1;
  const auto factor = static_cast<float>(text.rope.factor);
  std::vector<float> divisors;
  for (std::int64_t i = 0; i < text.head_dim; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(text.head_dim);
    const auto power = static_cast<float>(std::pow(text.rope.theta, exponent));
    const float wavelength = 2 * std::numbers::pi_v<float> * power;
    const float smooth = (8192.0F / wavelength - 1) / (4 - 1);
    divisors.push_back(wavelength < kShortest  ? 1
                       : wavelength > kLongest ? factor
                                               : 1 / ((1 - smooth) / factor + smooth));
  }
  return divisors;
}

}  // namespace caption::weights
