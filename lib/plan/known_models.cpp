// Sources: the config.json files of llava-hf/LLaVA-NeXT-Video-7B-hf,
// openai/clip-vit-large-patch14-336, lmsys/vicuna-7b-v1.5, Qwen/Qwen3-*, Qwen/Qwen3-VL-*-Instruct
// and OpenGVLab/InternVL3_5-*-HF; names of tensors: transformers 4.57
// modeling_{clip,llava_next_video,llama,qwen3,qwen3_vl,internvl}.py.
#include "plan/known_models.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace caption::plan {
namespace {

using model::Blueprint;
using model::DecoderSpec;
using model::LinearSpec;
using model::Part;
using model::Role;
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
          .rope_factor = rope_factor};
}

struct Qwen3Size {
  std::int64_t hidden;
  std::int64_t num_layers;
  std::int64_t num_heads;
  std::int64_t intermediate;
  bool is_tied;
};
constexpr Qwen3Size kQwen3Size0B6 = {1024, 28, 16, 3072, true};
constexpr Qwen3Size kQwen3Size1B7 = {2048, 28, 16, 6144, true};
constexpr Qwen3Size kQwen3Size4B = {2560, 36, 32, 9728, true};
constexpr Qwen3Size kQwen3Size8B = {4096, 36, 32, 12288, false};
constexpr Qwen3Size kQwen3Size14B = {5120, 40, 40, 17408, false};
constexpr Qwen3Size kQwen3Size32B = {5120, 64, 64, 25600, false};

constexpr std::int64_t kQwen3Positions = 40960;
constexpr std::int64_t kQwen3VlPositions = 262144;

DecoderSpec qwen3(const Qwen3Size& size, std::int64_t max_positions = kQwen3Positions) {
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
          .rope_theta = max_positions == kQwen3VlPositions ? 5e6 : 1e6};
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

// The model in samples/: 112 pixels in patches of 14.
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

// InternViT-300M on one tile of 448 pixels; pixel shuffle turns 2 x 2 patches into one token.
Blueprint intern_vl(const DecoderSpec& text) {
  VisionSpec vision = {.num_layers = 24,
                       .hidden = 1024,
                       .intermediate = 4096,
                       .num_heads = 16,
                       .patch_px = 14,
                       .image_px = 448,
                       .pool_stride = 2,
                       .num_positions = 1025};
  const std::int64_t hidden = vision.hidden;
  vision.projector = {{.out = text.hidden, .in = 4 * hidden},
                      {.out = text.hidden, .in = text.hidden}};
  Blueprint blueprint = text_model(text);
  blueprint.add_group({.part = Part::kTower});
  blueprint.add_vector("embeddings.cls_token", hidden);
  blueprint.add({.name = "embeddings.position_embeddings", .shape = {1, 1025, hidden}});
  blueprint.add({.name = "embeddings.patch_embeddings.projection.weight",
                 .shape = {hidden, 3, 14, 14},
                 .role = Role::kPatchEmbedding});
  blueprint.add_vector("embeddings.patch_embeddings.projection.bias", hidden);
  for (std::int64_t i = 0; i < vision.num_layers; ++i) {
    const std::string layer = "encoder.layer." + std::to_string(i) + ".";
    for (const char* name : {"q_proj.", "k_proj.", "v_proj.", "projection_layer."}) {
      blueprint.add_linear(layer + "attention." + name, {.out = hidden, .in = hidden},
                           Role::kEncoderLinear);
    }
    blueprint.add_vector(layer + "lambda_1", hidden);
    blueprint.add_vector(layer + "lambda_2", hidden);
    blueprint.add_norm(layer + "layernorm_before.", hidden);
    blueprint.add_norm(layer + "layernorm_after.", hidden);
    blueprint.add_linear(layer + "mlp.fc1.", {.out = vision.intermediate, .in = hidden},
                         Role::kEncoderLinear);
    blueprint.add_linear(layer + "mlp.fc2.", {.out = hidden, .in = vision.intermediate},
                         Role::kEncoderLinear);
  }
  add_projector(blueprint, vision, {"linear_1.", "linear_2."}, {""});
  blueprint.add_norm("layer_norm.", 4 * hidden);
  return blueprint;
}

struct Qwen3VlTower {
  std::int64_t num_layers;
  std::int64_t hidden;
  std::int64_t intermediate;
};
constexpr Qwen3VlTower kSmallTower = {24, 1024, 4096};
constexpr Qwen3VlTower kLargeTower = {27, 1152, 4304};

void add_qwen3_vl_layer(Blueprint& blueprint, const Qwen3VlTower& tower, const std::string& layer) {
  const auto linear = [&](const char* name, std::int64_t out, std::int64_t in) {
    blueprint.add_linear(layer + name, {.out = out, .in = in}, Role::kEncoderLinear);
  };
  blueprint.add_norm(layer + "norm1.", tower.hidden);
  blueprint.add_norm(layer + "norm2.", tower.hidden);
  linear("attn.qkv.", 3 * tower.hidden, tower.hidden);
  linear("attn.proj.", tower.hidden, tower.hidden);
  linear("mlp.linear_fc1.", tower.intermediate, tower.hidden);
  linear("mlp.linear_fc2.", tower.hidden, tower.intermediate);
}

// The projector has the tower's final merger and three mergers of DeepStack, which normalise after
// merging 2 x 2 patches.
Blueprint qwen3_vl(const DecoderSpec& text, const Qwen3VlTower& tower) {
  VisionSpec vision = {.num_layers = tower.num_layers,
                       .hidden = tower.hidden,
                       .intermediate = tower.intermediate,
                       .num_heads = 16,
                       .patch_px = 16,
                       .image_px = 0,
                       .frames_per_image = 2,
                       .class_tokens = 0,
                       .pool_stride = 2,
                       .num_positions = 2304};
  vision.text_tokens_per_image = 9;  // "<0.3 seconds>" and the marks before and after the tokens
  Blueprint blueprint = text_model(text);
  blueprint.add_group({.part = Part::kTower});
  blueprint.add({.name = "patch_embed.proj.weight",
                 .shape = {tower.hidden, 3, 2, 16, 16},
                 .role = Role::kPatchEmbedding});
  blueprint.add_vector("patch_embed.proj.bias", tower.hidden);
  blueprint.add({.name = "pos_embed.weight", .shape = {2304, tower.hidden}});
  for (std::int64_t i = 0; i < tower.num_layers; ++i) {
    add_qwen3_vl_layer(blueprint, tower, "blocks." + std::to_string(i) + ".");
  }
  blueprint.add_group({.part = Part::kProjector});
  const std::int64_t merged = 4 * tower.hidden;
  for (const char* stem : {"merger.", "deepstack_merger_list.0.", "deepstack_merger_list.1.",
                           "deepstack_merger_list.2."}) {
    const std::string merger = stem;
    blueprint.add_norm(merger + "norm.", merger == "merger." ? tower.hidden : merged);
    const LinearSpec inner = {.out = merged, .in = merged};
    const LinearSpec outer = {.out = text.hidden, .in = merged};
    blueprint.add_linear(merger + "linear_fc1.", inner, Role::kEncoderLinear);
    blueprint.add_linear(merger + "linear_fc2.", outer, Role::kEncoderLinear);
    vision.projector.insert(vision.projector.end(), {inner, outer});
  }
  blueprint.vision = vision;
  return blueprint;
}

struct Known {
  const char* name;
  const char* hub_name;
  KnownSupport support;
  Blueprint (*make)();
  DType stored = DType::kBF16;
};

constexpr KnownSupport kRuns = {.support = Support::kCaptions};
constexpr KnownSupport kIsPart = {.support = Support::kPart};
constexpr KnownSupport kByteLevel = {.support = Support::kNone,
                                     .why_not = "byte-level BPE tokenizers"};
constexpr KnownSupport kQwen3Vl = {.support = Support::kNone,
                                   .why_not = "models of the family Qwen3-VL"};
constexpr KnownSupport kInternVl = {.support = Support::kNone,
                                    .why_not = "models of the family InternVL"};

constexpr std::array kKnown = {
    Known{"demo", "samples/demo-model", kRuns, [] { return llava(demo_text(), demo_vision()); }},
    Known{"qwen3-0.6b", "Qwen/Qwen3-0.6B", kByteLevel,
          [] { return text_model(qwen3(kQwen3Size0B6)); }},
    Known{"qwen3-1.7b", "Qwen/Qwen3-1.7B", kByteLevel,
          [] { return text_model(qwen3(kQwen3Size1B7)); }},
    Known{"qwen3-4b", "Qwen/Qwen3-4B", kByteLevel, [] { return text_model(qwen3(kQwen3Size4B)); }},
    Known{"qwen3-8b", "Qwen/Qwen3-8B", kByteLevel, [] { return text_model(qwen3(kQwen3Size8B)); }},
    Known{"qwen3-14b", "Qwen/Qwen3-14B", kByteLevel,
          [] { return text_model(qwen3(kQwen3Size14B)); }},
    Known{"qwen3-32b", "Qwen/Qwen3-32B", kByteLevel,
          [] { return text_model(qwen3(kQwen3Size32B)); }},
    Known{"llama-7b", "lmsys/vicuna-7b-v1.5", kIsPart,
          [] { return text_model(llama_7b(32000, 1)); }},
    Known{"clip-l-336", "openai/clip-vit-large-patch14-336", kIsPart, clip_model, DType::kF32},
    Known{"llava-next-video-7b", "llava-hf/LLaVA-NeXT-Video-7B-hf", kRuns,
          // hidden_states[-2] of 24 layers
          [] { return llava(llama_7b(32064, 2.5), clip_l_336(23)); }},
    Known{"qwen3-vl-2b", "Qwen/Qwen3-VL-2B-Instruct", kQwen3Vl,
          [] { return qwen3_vl(qwen3(kQwen3Size1B7, kQwen3VlPositions), kSmallTower); }},
    Known{"qwen3-vl-4b", "Qwen/Qwen3-VL-4B-Instruct", kQwen3Vl,
          [] { return qwen3_vl(qwen3(kQwen3Size4B, kQwen3VlPositions), kSmallTower); }},
    Known{"qwen3-vl-8b", "Qwen/Qwen3-VL-8B-Instruct", kQwen3Vl,
          [] { return qwen3_vl(qwen3(kQwen3Size8B, kQwen3VlPositions), kLargeTower); }},
    Known{"qwen3-vl-32b", "Qwen/Qwen3-VL-32B-Instruct", kQwen3Vl,
          [] { return qwen3_vl(qwen3(kQwen3Size32B, kQwen3VlPositions), kLargeTower); }},
    Known{"internvl3.5-8b", "OpenGVLab/InternVL3_5-8B-HF", kInternVl,
          [] { return intern_vl(qwen3(kQwen3Size8B)); }},
    Known{"internvl3.5-14b", "OpenGVLab/InternVL3_5-14B-HF", kInternVl,
          [] { return intern_vl(qwen3(kQwen3Size14B)); }},
};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

const Known* find_known(std::string_view name) {
  const auto* const known = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& candidate) {
    return equal_ignoring_case(candidate.name, name) ||
           equal_ignoring_case(candidate.hub_name, name);
  });
  return known == kKnown.end() ? nullptr : known;
}

}  // namespace

std::optional<Blueprint> find_known_model(std::string_view name) {
  const Known* const known = find_known(name);
  if (known == nullptr) return std::nullopt;
  Blueprint blueprint = known->make();
  blueprint.name = known->hub_name;
  blueprint.set_stored(known->stored);
  return blueprint;
}

std::optional<KnownSupport> find_known_support(std::string_view name) {
  const Known* const known = find_known(name);
  return known == nullptr ? std::nullopt : std::optional<KnownSupport>(known->support);
}

std::vector<std::string> known_model_names() {
  std::vector<std::string> names;
  for (const Known& known : kKnown) names.emplace_back(known.name);
  return names;
}

}  // namespace caption::plan
