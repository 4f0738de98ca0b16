// plan/internal/known_shapes.h: the shapes of the known models, composed of text models and towers.
#pragma once

#include <cstdint>

#include "model/blueprint.h"

namespace caption::plan {

struct Llama3Size {
  std::int64_t hidden;
  std::int64_t num_layers;
  std::int64_t num_heads;
  std::int64_t intermediate;
  double rope_factor;
  bool is_tied;
};
inline constexpr Llama3Size kLlama3Size1B = {2048, 16, 32, 8192, 32, true};
inline constexpr Llama3Size kLlama3Size3B = {3072, 28, 24, 8192, 32, true};
inline constexpr Llama3Size kLlama3Size8B = {4096, 32, 32, 14336, 8, false};

struct Qwen2Size {
  std::int64_t hidden;
  std::int64_t num_layers;
  std::int64_t num_heads;
  std::int64_t num_kv_heads;
  std::int64_t intermediate;
  bool is_tied;
};
inline constexpr Qwen2Size kQwen2Size0B5 = {896, 24, 14, 2, 4864, true};
inline constexpr Qwen2Size kQwen2Size1B5 = {1536, 28, 12, 2, 8960, true};
inline constexpr Qwen2Size kQwen2Size3B = {2048, 36, 16, 2, 11008, true};
inline constexpr Qwen2Size kQwen2Size7B = {3584, 28, 28, 4, 18944, false};
inline constexpr Qwen2Size kQwen2Size14B = {5120, 48, 40, 8, 13824, false};
inline constexpr Qwen2Size kQwen2Size32B = {5120, 64, 40, 8, 27648, false};
inline constexpr Qwen2Size kQwen2Size72B = {8192, 80, 64, 8, 29568, false};

struct Qwen3Size {
  std::int64_t hidden;
  std::int64_t num_layers;
  std::int64_t num_heads;
  std::int64_t intermediate;
  bool is_tied;
};
inline constexpr Qwen3Size kQwen3Size0B6 = {1024, 28, 16, 3072, true};
inline constexpr Qwen3Size kQwen3Size1B7 = {2048, 28, 16, 6144, true};
inline constexpr Qwen3Size kQwen3Size4B = {2560, 36, 32, 9728, true};
inline constexpr Qwen3Size kQwen3Size8B = {4096, 36, 32, 12288, false};
inline constexpr Qwen3Size kQwen3Size14B = {5120, 40, 40, 17408, false};
inline constexpr Qwen3Size kQwen3Size32B = {5120, 64, 64, 25600, false};

inline constexpr std::int64_t kQwen3Positions = 40960;
inline constexpr std::int64_t kQwen3VlPositions = 262144;

// Text models.
model::DecoderSpec llama_7b(std::int64_t vocab, double rope_factor);
model::DecoderSpec llama3(const Llama3Size& size);
model::DecoderSpec yi_34b(std::int64_t vocab);  // the text model of LLaVA-NeXT-Video 34B
model::DecoderSpec mistral_7b();                // version 0.2, which has no sliding window
model::DecoderSpec qwen2(const Qwen2Size& size);
model::DecoderSpec qwen3(const Qwen3Size& size, std::int64_t max_positions = kQwen3Positions);
model::DecoderSpec demo_text();
model::DecoderSpec with_vocab(model::DecoderSpec text, std::int64_t vocab);

// Towers.
model::VisionSpec clip_l_336(std::int64_t num_layers);
model::VisionSpec demo_vision();  // the tower of the model in samples/: 112 pixels, patches of 14
model::VisionSpec intern_vit_300m();
model::VisionSpec intern_vit_6b();
// SigLIP-so400m with a patch of 14 pixels, or SigLIP 2's with 16.
model::VisionSpec siglip_so400m(std::int64_t num_layers, std::int64_t patch_px);
enum class Qwen3VlTower { kSmall, kLarge };

// Whole models.
model::Blueprint text_model(const model::DecoderSpec& text);
model::Blueprint clip_model();
model::Blueprint llava(const model::DecoderSpec& text, model::VisionSpec vision);
model::Blueprint onevision(const model::DecoderSpec& text, model::VisionSpec vision);
model::Blueprint intern_vl(model::DecoderSpec text, model::VisionSpec vision);
model::Blueprint intern_vl3(const Qwen2Size& size, const model::VisionSpec& vision);
// `tower_intermediate` is the width of the tower's MLP, which differs by size.
model::Blueprint qwen2_5_vl(const Qwen2Size& size, std::int64_t tower_intermediate);
model::Blueprint qwen3_vl(model::DecoderSpec text, Qwen3VlTower tower);

}  // namespace caption::plan
