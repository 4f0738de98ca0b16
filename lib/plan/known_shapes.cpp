// Sources: the config.json files of llava-hf/LLaVA-NeXT-Video-*-hf,
// llava-hf/llava-onevision-*-ov-hf, openai/clip-vit-large-patch14-336, lmsys/vicuna-7b-v1.5,
// meta-llama/Llama-3.*-Instruct, mistralai/Mistral-7B-Instruct-v0.2, Qwen/Qwen2.5-*-Instruct,
// Qwen/Qwen3-*, Qwen/Qwen2.5-VL-*-Instruct, Qwen/Qwen3-VL-*-Instruct, OpenGVLab/InternVL3-* and
// OpenGVLab/InternVL3_5-*-HF; names of tensors: transformers 4.57 modeling_{clip,siglip,
// llava_next_video,llava_onevision,llama,mistral,qwen2,qwen2_5_vl,qwen3,qwen3_vl,internvl}.py.
#include "plan/internal/known_shapes.h"

#include <vector>

#include "model/vit_blueprint.h"

namespace caption::plan {

using model::Blueprint;
using model::DecoderSpec;
using model::RopeKind;
using model::VisionSpec;

DecoderSpec llama_7b(std::int64_t vocab, double rope_factor) {
  return {.num_layers = 32,
          .hidden = 4096,
          .intermediate = 11008,
          .num_heads = 32,
          .num_kv_heads = 32,
          .head_dim = 128,
          .vocab = vocab,
          .max_positions = static_cast<std::int64_t>(4096 * rope_factor),
          .rms_norm_eps = 1e-5F,
          .rope = {.kind = rope_factor == 1 ? RopeKind::kDefault : RopeKind::kLinear,
                   .factor = rope_factor}};
}

DecoderSpec llama3(const Llama3Size& size) {
  return {.num_layers = size.num_layers,
          .hidden = size.hidden,
          .intermediate = size.intermediate,
          .num_heads = size.num_heads,
          .num_kv_heads = 8,
          .head_dim = size.hidden / size.num_heads,
          .vocab = 128256,
          .max_positions = 131072,
          .tied_embeddings = size.is_tied,
          .rms_norm_eps = 1e-5F,
          .rope = {.kind = RopeKind::kLlama3,
                   .theta = 5e5,
                   .factor = size.rope_factor,
                   .original_max_position = 8192}};
}

DecoderSpec yi_34b(std::int64_t vocab) {
  return {.num_layers = 60,
          .hidden = 7168,
          .intermediate = 20480,
          .num_heads = 56,
          .num_kv_heads = 8,
          .head_dim = 128,
          .vocab = vocab,
          .max_positions = 4096,
          .rms_norm_eps = 1e-5F,
          .rope = {.theta = 5e6}};
}

DecoderSpec mistral_7b() {
  return {.num_layers = 32,
          .hidden = 4096,
          .intermediate = 14336,
          .num_heads = 32,
          .num_kv_heads = 8,
          .head_dim = 128,
          .vocab = 32000,
          .max_positions = 32768,
          .rms_norm_eps = 1e-5F,
          .rope = {.theta = 1e6}};
}

DecoderSpec qwen2(const Qwen2Size& size) {
  return {.num_layers = size.num_layers,
          .hidden = size.hidden,
          .intermediate = size.intermediate,
          .num_heads = size.num_heads,
          .num_kv_heads = size.num_kv_heads,
          .head_dim = size.hidden / size.num_heads,
          .vocab = size.is_tied ? 151936 : 152064,
          .max_positions = 32768,
          .tied_embeddings = size.is_tied,
          .qkv_bias = true,
          .rope = {.theta = 1e6}};
}

DecoderSpec qwen3(const Qwen3Size& size, std::int64_t max_positions) {
  return {.num_layers = size.num_layers,
          .hidden = size.hidden,
          .intermediate = size.intermediate,
          .num_heads = size.num_heads,
          .num_kv_heads = 8,
          .head_dim = 128,
          .vocab = 151936,
          .max_positions = max_positions,
          .tied_embeddings = size.is_tied,
          .qk_norm = true,
          .rope = {.theta = max_positions == kQwen3VlPositions ? 5e6 : 1e6}};
}

VisionSpec clip_l_336(std::int64_t num_layers) {
  return {.num_layers = num_layers,
          .hidden = 1024,
          .intermediate = 4096,
          .num_heads = 16,
          .patch_px = 14,
          .image_px = 336,
          .num_positions = 577};
}

VisionSpec demo_vision() {
  return {.num_layers = 4,  // hidden_states[-2] of 5 layers
          .hidden = 192,
          .intermediate = 512,
          .num_heads = 6,
          .patch_px = 14,
          .image_px = 112,
          .num_positions = 65};
}

DecoderSpec demo_text() {
  return {.num_layers = 4,
          .hidden = 256,
          .intermediate = 512,
          .num_heads = 4,
          .num_kv_heads = 2,
          .head_dim = 64,
          .vocab = 1280,
          .max_positions = 1024};
}

Blueprint text_model(const DecoderSpec& text) { return model::decoder_blueprint(text); }

Blueprint clip_model() { return model::clip_tower_blueprint(clip_l_336(24)); }

Blueprint llava(const DecoderSpec& text, VisionSpec vision) {
  vision.pool_stride = 2;
  vision.projector = {{.out = text.hidden, .in = vision.hidden},
                      {.out = text.hidden, .in = text.hidden}};
  Blueprint blueprint = text_model(text);
  add_clip_tower(blueprint, vision, {""});
  add_projector(blueprint, vision, {"linear_1.", "linear_2."}, {""});
  return blueprint;
}

namespace {

// InternViT on one tile of 448 pixels.
VisionSpec intern_vit(std::int64_t num_layers, std::int64_t hidden, std::int64_t num_heads) {
  return {.num_layers = num_layers,
          .hidden = hidden,
          .intermediate = 4 * hidden,
          .num_heads = num_heads,
          .patch_px = 14,
          .image_px = 448,
          .vit = {.patch_bias = true, .pre_norm = false, .layer_scale = true},
          .num_positions = 1025,
          .activation = model::Activation::kGelu,
          .layer_norm_eps = 1e-6F};
}

}  // namespace

VisionSpec intern_vit_300m() { return intern_vit(24, 1024, 16); }

VisionSpec intern_vit_6b() {
  VisionSpec vision = intern_vit(45, 3200, 25);
  vision.vit.norm = model::Norm::kRms;
  vision.vit.attention_bias = false;
  vision.vit.qk_norm = true;
  return vision;
}

// No size of this family ties its embeddings.
Blueprint intern_vl(DecoderSpec text, VisionSpec vision) {
  text.tied_embeddings = false;
  vision.merge = model::PatchMerge::kShuffle;
  vision.pool_stride = 2;
  vision.projector_norm = true;
  vision.projector = {{.out = text.hidden, .in = vision.merged_columns()},
                      {.out = text.hidden, .in = text.hidden}};
  vision.text_tokens_per_image = 8;  // "Frame12: <img>", "</img>" and a line break
  Blueprint blueprint = text_model(text);
  add_intern_vit(blueprint, vision, {""});
  add_intern_projector(blueprint, vision, {""});
  return blueprint;
}

VisionSpec siglip_so400m(std::int64_t num_layers, std::int64_t patch_px) {
  const std::int64_t grid = 384 / patch_px;
  return {.num_layers = num_layers,
          .hidden = 1152,
          .intermediate = 4304,
          .num_heads = 16,
          .patch_px = patch_px,
          .image_px = 384,
          .vit = {.patch_bias = true, .pre_norm = false},
          .class_tokens = 0,
          .num_positions = grid * grid,
          .activation = model::Activation::kGeluTanh,
          .layer_norm_eps = 1e-6F};
}

Blueprint onevision(const DecoderSpec& text, VisionSpec vision) {
  vision.resize_stride = 2;
  vision.ends_with_newline = true;
  vision.projector = {{.out = text.hidden, .in = vision.hidden},
                      {.out = text.hidden, .in = text.hidden}};
  Blueprint blueprint = text_model(text);
  add_clip_tower(blueprint, vision, {""});
  add_projector(blueprint, vision, {"linear_1.", "linear_2."}, {""});
  blueprint.newline = blueprint.add_vector("image_newline", text.hidden);
  return blueprint;
}

// The limits of frame sizes are those of the repositories' preprocessor_config.json.
Blueprint qwen2_5_vl(const Qwen2Size& size, std::int64_t tower_intermediate) {
  const vision::SmartResize resize = {
      .unit_px = 28, .min_pixels = 3136, .max_pixels = 12845056, .counts_clip = false};
  const VisionSpec vision = {.num_layers = 32,
                             .hidden = 1280,
                             .intermediate = tower_intermediate,
                             .num_heads = 16,
                             .patch_px = 14,
                             .frames_per_image = 2,
                             .resize = resize,
                             .qwen = {.norm = model::Norm::kRms, .gated_mlp = true, .window = 4},
                             .class_tokens = 0,
                             .pool_stride = 2,
                             .full_attention_layers = {7, 15, 23, 31},
                             .layer_norm_eps = 1e-6F};
  DecoderSpec text = qwen2(size);
  text.max_positions = 128000;
  text.mrope_section = {16, 24, 24};
  Blueprint blueprint = text_model(text);
  add_qwen2_5_vl_tower(blueprint, vision, text.hidden, {""});
  return blueprint;
}

namespace {

struct TowerSize {
  std::int64_t num_layers;
  std::int64_t hidden;
  std::int64_t intermediate;
  std::vector<std::int64_t> deepstack_layers;
};

TowerSize size_of(Qwen3VlTower tower) {
  switch (tower) {
    case Qwen3VlTower::kSmall: return {24, 1024, 4096, {5, 11, 17}};
    case Qwen3VlTower::kLarge: break;
  }
  return {27, 1152, 4304, {8, 16, 24}};
}

}  // namespace

Blueprint qwen3_vl(DecoderSpec text, Qwen3VlTower tower) {
  const TowerSize size = size_of(tower);
  const vision::SmartResize resize = {.unit_px = 32,
                                      .frames_per_patch = 2,
                                      .min_pixels = 4096,
                                      .max_pixels = 25165824,
                                      .counts_clip = true};
  const VisionSpec vision = {.num_layers = size.num_layers,
                             .hidden = size.hidden,
                             .intermediate = size.intermediate,
                             .num_heads = 16,
                             .patch_px = 16,
                             .frames_per_image = 2,
                             .resize = resize,
                             .class_tokens = 0,
                             .pool_stride = 2,
                             .num_positions = 2304,
                             .deepstack_layers = size.deepstack_layers,
                             .activation = model::Activation::kGeluTanh,
                             .layer_norm_eps = 1e-6F,
                             // "<0.3 seconds>" and the marks before and after the tokens
                             .text_tokens_per_image = 9};
  text.mrope_section = {24, 20, 20};
  text.mrope_interleaved = true;
  text.deepstack_layers = 3;
  Blueprint blueprint = text_model(text);
  add_qwen3_vl_tower(blueprint, vision, text.hidden, {""});
  return blueprint;
}

DecoderSpec with_vocab(DecoderSpec text, std::int64_t vocab) {
  text.vocab = vocab;
  return text;
}

Blueprint intern_vl3(const Qwen2Size& size, const VisionSpec& vision) {
  return intern_vl(with_vocab(qwen2(size), 151674), vision);
}

}  // namespace caption::plan
