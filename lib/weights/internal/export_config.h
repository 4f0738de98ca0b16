// weights/internal/export_config.h: what config.json says of a model that becomes GGUF files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "weights/gguf_writer.h"

namespace caption::weights {

enum class ExportFamily { kText, kQwen25Vl, kQwen3Vl, kInternVl, kInternVlChat, kLlava };

// The scaling of rotary frequencies; "" for none.
struct ExportedRope {
  double theta = 10000;
  std::string scaling;  // "linear", "yarn" or "llama3"
  double factor = 1;
  std::int64_t original_positions = 0;  // yarn
  std::optional<double> beta_fast;      // yarn
  std::optional<double> beta_slow;
};

struct ExportedText {
  std::string architecture;  // "llama"
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;
  double rms_norm_eps = 0;
  ExportedRope rope;
  std::optional<std::int64_t> window;                // mistral
  std::vector<std::int32_t> sections;                // sections of positions along several axes
  std::optional<std::int64_t> num_deepstack_layers;  // qwen3vl only
  bool is_tied = false;
  bool states_head_dim = false;  // whether the file has keys for it
};

struct ExportedModel {
  ExportFamily family = ExportFamily::kText;
  ExportedText text;
  JsonObject config;       // the whole config.json
  JsonObject text_config;  // the text model's part of it
};

// Throws Error(kBadModel | kUnavailable) "FOLDER/config.json: KEY: ..." for another model_type, and
// for a value that a GGUF file cannot hold or whose reader takes another one.
ExportedModel read_exported_model(const std::filesystem::path& folder);

[[noreturn]] void refuse_export(const JsonObject& config, const std::string& what);
// Refuses another value than `expected`.
void require_value(const JsonObject& config, std::string_view key, std::string_view fallback,
                   std::string_view expected);

// The keys "llama.*" of a language model.
void add_text_fields(const ExportedText& text, GgufFields& fields);

// The divisors of the rotary frequencies of Llama 3.1, [head_dim / 2]. Source: LlamaModel of
// conversion/llama.py.
std::vector<float> llama3_divisors(const ExportedText& text);

}  // namespace caption::weights
