// Sources: the config.json files of llava-hf/LLaVA-NeXT-Video-7B-hf,
// openai/clip-vit-large-patch14-336, lmsys/vicuna-7b-v1.5, meta-llama/Llama-3.*-Instruct,
// mistralai/Mistral-7B-Instruct-v0.2, Qwen/Qwen2.5-*-Instruct, Qwen/Qwen3-*,
// Qwen/Qwen2.5-VL-*-Instruct, Qwen/Qwen3-VL-*-Instruct and OpenGVLab/InternVL3_5-*-HF; names of
// tensors: transformers 4.57 modeling_{clip,siglip,llava_next_video,llava_onevision,llama,mistral,
// qwen2,qwen2_5_vl,qwen3,qwen3_vl,internvl}.py.
#include "plan/known_models.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "model/vit_blueprint.h"

namespace caption::plan {
namespace {

using model::Blueprint;
using model::DecoderSpec;
using model::LinearSpec;
using model::Part;
using model::Role;
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

struct Llama3Size {
  std::int64_t hidden;
  std::int64_t num_layers;
  std::int64_t num_heads;
  std::int64_t intermediate;
  double rope_factor;
  bool is_tied;
};
constexpr Llama3Size kLlama3Size1B = {2048, 16, 32, 8192, 32, true};
constexpr Llama3Size kLlama3Size3B = {3072, 28, 24, 8192, 32, true};
constexpr Llama3Size kLlama3Size8B = {4096, 32, 32, 14336, 8, false};

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

// Version 0.2, which has no sliding window.
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

struct Qwen2Size {
  std::int64_t hidden;
  std::int64_t num_layers;
  std::int64_t num_heads;
  std::int64_t num_kv_heads;
  std::int64_t intermediate;
  bool is_tied;
};
constexpr Qwen2Size kQwen2Size0B5 = {896, 24, 14, 2, 4864, true};
constexpr Qwen2Size kQwen2Size1B5 = {1536, 28, 12, 2, 8960, true};
constexpr Qwen2Size kQwen2Size3B = {2048, 36, 16, 2, 11008, true};
constexpr Qwen2Size kQwen2Size7B = {3584, 28, 28, 4, 18944, false};
constexpr Qwen2Size kQwen2Size14B = {5120, 48, 40, 8, 13824, false};

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

// SigLIP-so400m with a patch of 14 pixels, or SigLIP 2's with 16.
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
Blueprint qwen2_5_vl(const Qwen2Size& size) {
  const vision::SmartResize resize = {
      .unit_px = 28, .min_pixels = 3136, .max_pixels = 12845056, .counts_clip = false};
  const VisionSpec vision = {.num_layers = 32,
                             .hidden = 1280,
                             .intermediate = 3420,
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

struct Qwen3VlTower {
  std::int64_t num_layers;
  std::int64_t hidden;
  std::int64_t intermediate;
  std::vector<std::int64_t> deepstack_layers;
};
const Qwen3VlTower kSmallTower = {24, 1024, 4096, {5, 11, 17}};
const Qwen3VlTower kLargeTower = {27, 1152, 4304, {8, 16, 24}};

Blueprint qwen3_vl(DecoderSpec text, const Qwen3VlTower& tower) {
  const vision::SmartResize resize = {.unit_px = 32,
                                      .frames_per_patch = 2,
                                      .min_pixels = 4096,
                                      .max_pixels = 25165824,
                                      .counts_clip = true};
  const VisionSpec vision = {.num_layers = tower.num_layers,
                             .hidden = tower.hidden,
                             .intermediate = tower.intermediate,
                             .num_heads = 16,
                             .patch_px = 16,
                             .frames_per_image = 2,
                             .resize = resize,
                             .class_tokens = 0,
                             .pool_stride = 2,
                             .num_positions = 2304,
                             .deepstack_layers = tower.deepstack_layers,
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

struct Known {
  const char* name;
  const char* hub_name;
  KnownSupport support;
  Blueprint (*make)();
  DType stored = DType::kBF16;
};

constexpr KnownSupport kRuns = {.support = Support::kCaptions};
constexpr KnownSupport kIsPart = {.support = Support::kPart};
constexpr std::array kKnown = {
    Known{"demo", "samples/demo-model", kRuns, [] { return llava(demo_text(), demo_vision()); }},
    Known{"qwen3-0.6b", "Qwen/Qwen3-0.6B", kIsPart,
          [] { return text_model(qwen3(kQwen3Size0B6)); }},
    Known{"qwen3-1.7b", "Qwen/Qwen3-1.7B", kIsPart,
          [] { return text_model(qwen3(kQwen3Size1B7)); }},
    Known{"qwen3-4b", "Qwen/Qwen3-4B", kIsPart, [] { return text_model(qwen3(kQwen3Size4B)); }},
    Known{"qwen3-8b", "Qwen/Qwen3-8B", kIsPart, [] { return text_model(qwen3(kQwen3Size8B)); }},
    Known{"qwen3-14b", "Qwen/Qwen3-14B", kIsPart, [] { return text_model(qwen3(kQwen3Size14B)); }},
    Known{"qwen3-32b", "Qwen/Qwen3-32B", kIsPart, [] { return text_model(qwen3(kQwen3Size32B)); }},
    Known{"qwen2.5-0.5b", "Qwen/Qwen2.5-0.5B-Instruct", kIsPart,
          [] { return text_model(qwen2(kQwen2Size0B5)); }},
    Known{"qwen2.5-1.5b", "Qwen/Qwen2.5-1.5B-Instruct", kIsPart,
          [] { return text_model(qwen2(kQwen2Size1B5)); }},
    Known{"qwen2.5-3b", "Qwen/Qwen2.5-3B-Instruct", kIsPart,
          [] { return text_model(qwen2(kQwen2Size3B)); }},
    Known{"qwen2.5-7b", "Qwen/Qwen2.5-7B-Instruct", kIsPart,
          [] { return text_model(qwen2(kQwen2Size7B)); }},
    Known{"qwen2.5-14b", "Qwen/Qwen2.5-14B-Instruct", kIsPart,
          [] { return text_model(qwen2(kQwen2Size14B)); }},
    Known{"llama-3.2-1b", "meta-llama/Llama-3.2-1B-Instruct", kIsPart,
          [] { return text_model(llama3(kLlama3Size1B)); }},
    Known{"llama-3.2-3b", "meta-llama/Llama-3.2-3B-Instruct", kIsPart,
          [] { return text_model(llama3(kLlama3Size3B)); }},
    Known{"llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct", kIsPart,
          [] { return text_model(llama3(kLlama3Size8B)); }},
    Known{"mistral-7b", "mistralai/Mistral-7B-Instruct-v0.2", kIsPart,
          [] { return text_model(mistral_7b()); }},
    Known{"llama-7b", "lmsys/vicuna-7b-v1.5", kIsPart,
          [] { return text_model(llama_7b(32000, 1)); }},
    Known{"clip-l-336", "openai/clip-vit-large-patch14-336", kIsPart, clip_model, DType::kF32},
    Known{"llava-next-video-7b", "llava-hf/LLaVA-NeXT-Video-7B-hf", kRuns,
          // hidden_states[-2] of 24 layers
          [] { return llava(llama_7b(32064, 2.5), clip_l_336(23)); }},
    Known{"qwen2.5-vl-3b", "Qwen/Qwen2.5-VL-3B-Instruct", kRuns,
          [] { return qwen2_5_vl(kQwen2Size3B); }},
    Known{"qwen2.5-vl-7b", "Qwen/Qwen2.5-VL-7B-Instruct", kRuns,
          [] { return qwen2_5_vl(kQwen2Size7B); }},
    Known{"qwen3-vl-2b", "Qwen/Qwen3-VL-2B-Instruct", kRuns,
          [] { return qwen3_vl(qwen3(kQwen3Size1B7, kQwen3VlPositions), kSmallTower); }},
    Known{"qwen3-vl-4b", "Qwen/Qwen3-VL-4B-Instruct", kRuns,
          [] { return qwen3_vl(qwen3(kQwen3Size4B, kQwen3VlPositions), kSmallTower); }},
    Known{"qwen3-vl-8b", "Qwen/Qwen3-VL-8B-Instruct", kRuns,
          [] { return qwen3_vl(qwen3(kQwen3Size8B, kQwen3VlPositions), kLargeTower); }},
    Known{"qwen3-vl-32b", "Qwen/Qwen3-VL-32B-Instruct", kRuns,
          [] { return qwen3_vl(qwen3(kQwen3Size32B, kQwen3VlPositions), kLargeTower); }},
    Known{"internvl3.5-1b", "OpenGVLab/InternVL3_5-1B-HF", kRuns,
          [] { return intern_vl(qwen3(kQwen3Size0B6), intern_vit_300m()); }},
    Known{"internvl3.5-2b", "OpenGVLab/InternVL3_5-2B-HF", kRuns,
          [] { return intern_vl(qwen3(kQwen3Size1B7), intern_vit_300m()); }},
    Known{"internvl3.5-4b", "OpenGVLab/InternVL3_5-4B-HF", kRuns,
          [] { return intern_vl(qwen3(kQwen3Size4B), intern_vit_300m()); }},
    Known{"internvl3.5-8b", "OpenGVLab/InternVL3_5-8B-HF", kRuns,
          [] { return intern_vl(qwen3(kQwen3Size8B), intern_vit_300m()); }},
    Known{"internvl3.5-14b", "OpenGVLab/InternVL3_5-14B-HF", kRuns,
          [] { return intern_vl(qwen3(kQwen3Size14B), intern_vit_300m()); }},
    Known{"internvl3.5-38b", "OpenGVLab/InternVL3_5-38B-HF", kRuns,
          [] { return intern_vl(qwen3(kQwen3Size32B), intern_vit_6b()); }},
    Known{"internvl3-1b", "OpenGVLab/InternVL3-1B-hf", kRuns,
          [] { return intern_vl3(kQwen2Size0B5, intern_vit_300m()); }},
    Known{"internvl3-2b", "OpenGVLab/InternVL3-2B-hf", kRuns,
          [] { return intern_vl3(kQwen2Size1B5, intern_vit_300m()); }},
    Known{"internvl3-8b", "OpenGVLab/InternVL3-8B-hf", kRuns,
          [] { return intern_vl3(kQwen2Size7B, intern_vit_300m()); }},
    Known{"internvl3-14b", "OpenGVLab/InternVL3-14B-hf", kRuns,
          [] { return intern_vl3(kQwen2Size14B, intern_vit_300m()); }},
    Known{"llava-onevision-0.5b", "llava-hf/llava-onevision-qwen2-0.5b-ov-hf", kRuns,
          [] { return onevision(with_vocab(qwen2(kQwen2Size0B5), 152000), siglip_so400m(26, 14)); },
          DType::kF16},
    Known{"llava-onevision-7b", "llava-hf/llava-onevision-qwen2-7b-ov-hf", kRuns,
          [] { return onevision(with_vocab(qwen2(kQwen2Size7B), 152128), siglip_so400m(26, 14)); },
          DType::kF16},
    Known{"varco-vision-2.0-14b", "NCSOFT/VARCO-VISION-2.0-14B", kRuns,
          [] { return onevision(qwen3(kQwen3Size14B), siglip_so400m(27, 16)); }},
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
