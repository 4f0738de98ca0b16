// tests/app/drawn_model.h: a language model of 100 MB and more, of drawn weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/app/process.h"
#include "weights/safetensors_writer.h"

namespace caption::test {

// Eight layers of the shape of Qwen3 in bf16: 207 MB, of which a layer has 25.8 MB.
struct DrawnModel {
  static constexpr std::int64_t kLayers = 8;
  static constexpr std::int64_t kHidden = 1024;  // 8 heads of 128
  static constexpr std::int64_t kIntermediate = 2816;
  static constexpr std::int64_t kLayerWeights = kHidden * (4 * kHidden + 3 * kIntermediate);
};

inline std::vector<weights::PlannedTensor> drawn_model_tensors() {
  std::vector<weights::PlannedTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> extents) {
    tensors.push_back(weights::plan_tensor(name + ".weight", "BF16", std::move(extents)));
  };
  constexpr std::int64_t kHidden = DrawnModel::kHidden;
  constexpr std::int64_t kVocab = 440;
  add("model.embed_tokens", {kVocab, kHidden});
  add("lm_head", {kVocab, kHidden});
  add("model.norm", {kHidden});
  for (std::int64_t i = 0; i < DrawnModel::kLayers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    add(layer + "input_layernorm", {kHidden});
    add(layer + "post_attention_layernorm", {kHidden});
    for (const char* const norm : {"q_norm", "k_norm"}) add(layer + "self_attn." + norm, {128});
    for (const char* const name : {"q", "k", "v", "o"}) {
      add(layer + "self_attn." + name + "_proj", {kHidden, kHidden});
    }
    add(layer + "mlp.gate_proj", {DrawnModel::kIntermediate, kHidden});
    add(layer + "mlp.up_proj", {DrawnModel::kIntermediate, kHidden});
    add(layer + "mlp.down_proj", {kHidden, DrawnModel::kIntermediate});
  }
  return tensors;
}

// Makes the folder, with the tokenizer of a golden's language model.
inline void write_drawn_model(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  fs::copy(fs::path(CAPTION_SOURCE_DIR) / "tests/golden/model/composed/llm", folder);
  fs::remove(folder / "model.safetensors");
  write_text(folder / "config.json", R"({"architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3", "dtype": "bfloat16", "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 8,
    "num_key_value_heads": 8, "num_hidden_layers": 8, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "tie_word_embeddings": false,
    "attention_bias": false, "vocab_size": 440})");
  // Numbers of 2^-7 to 2^-5 of both signs, of which every tensor has a piece from another place.
  std::mt19937 random(1);
  std::vector<std::uint16_t> numbers(8'000'000);
  for (std::uint16_t& number : numbers) {
    number = static_cast<std::uint16_t>(0x3C00u | (random() & 0x80FFu));
  }
  const std::vector<weights::PlannedTensor> tensors = drawn_model_tensors();
  weights::SafetensorsWriter writer(folder / "model.safetensors", tensors);
  for (const weights::PlannedTensor& tensor : tensors) {
    const std::size_t count = static_cast<std::size_t>(tensor.size_bytes) / 2;
    const std::size_t first = random() % (numbers.size() - count);
    writer.write(tensor.name, std::as_bytes(std::span(numbers).subspan(first, count)));
  }
  writer.finish();
}

}  // namespace caption::test
