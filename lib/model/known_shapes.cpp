// Shapes of well-known models, for planning and measuring without their files.
// Source: config.json of the repositories named in kKnown on huggingface.co, and for counts of
// weights transformers 4.57 modeling_{clip,llama,qwen3,qwen3_vl,internvl}.py.
#include <algorithm>
#include <array>
#include <cctype>

#include "model/known_support.h"
#include "model/model_shape.h"

namespace caption::model {
namespace {

TextShape llama_7b(std::int64_t vocab, std::int64_t max_positions) {
  return {.num_layers = 32,
          .hidden = 4096,
          .intermediate = 11008,
          .num_heads = 32,
          .num_kv_heads = 32,
          .head_dim = 128,
          .vocab = vocab,
          .max_positions = max_positions};
}

struct Qwen3Size {
  std::int64_t hidden;
  std::int64_t num_layers;
  std::int64_t num_heads;
  std::int64_t intermediate;
  bool is_tied;
};
constexpr Qwen3Size k0p6B = {1024, 28, 16, 3072, true};
constexpr Qwen3Size k1p7B = {2048, 28, 16, 6144, true};
constexpr Qwen3Size k4B = {2560, 36, 32, 9728, true};
constexpr Qwen3Size k8B = {4096, 36, 32, 12288, false};
constexpr Qwen3Size k14B = {5120, 40, 40, 17408, false};
constexpr Qwen3Size k32B = {5120, 64, 64, 25600, false};

constexpr std::int64_t kQwen3Positions = 40960;
constexpr std::int64_t kQwen3VlPositions = 262144;

TextShape qwen3(const Qwen3Size& size, std::int64_t max_positions = kQwen3Positions) {
  return {.num_layers = size.num_layers,
          .hidden = size.hidden,
          .intermediate = size.intermediate,
          .num_heads = size.num_heads,
          .num_kv_heads = 8,
          .head_dim = 128,
          .vocab = 151936,
          .max_positions = max_positions,
          .tied_embeddings = size.is_tied,
          .qk_norm = true};
}

// Counts two norms with biases, and the biases of the six matrices of a layer.
std::int64_t vit_layer_vectors(std::int64_t hidden, std::int64_t intermediate) {
  return 9 * hidden + intermediate;
}

VisionShape clip_l_336(std::int64_t num_layers) {
  VisionShape shape = {.num_layers = num_layers,
                       .hidden = 1024,
                       .intermediate = 4096,
                       .num_heads = 16,
                       .patch_px = 14,
                       .image_px = 336,
                       .num_positions = 577};
  shape.num_other_weights = 3 * 1024 + num_layers * vit_layer_vectors(1024, 4096);
  return shape;
}

VisionShape llava_vision(std::int64_t text_hidden) {
  VisionShape shape = clip_l_336(23);  // hidden_states[-2] of 24 layers
  shape.pool_stride = 2;
  shape.projector = {{text_hidden, 1024}, {text_hidden, text_hidden}};
  shape.num_other_weights += 2 * text_hidden;
  return shape;
}

// InternViT-300M on one tile of 448 pixels; pixel shuffle turns 2 x 2 patches into one token.
VisionShape intern_vit_300m(std::int64_t text_hidden) {
  VisionShape shape = {.num_layers = 24,
                       .hidden = 1024,
                       .intermediate = 4096,
                       .num_heads = 16,
                       .patch_px = 14,
                       .image_px = 448,
                       .pool_stride = 2,
                       .num_positions = 1025};
  constexpr std::int64_t kClassAndPatchBias = 2 * 1024;
  constexpr std::int64_t kLayerScales = 2 * 1024;
  shape.num_other_weights =
      kClassAndPatchBias + 24 * (vit_layer_vectors(1024, 4096) + kLayerScales);
  shape.projector = {{text_hidden, 4096}, {text_hidden, text_hidden}};
  shape.num_other_weights += 2 * 4096 + 2 * text_hidden;  // the norm before, and two biases
  return shape;
}

struct Qwen3VlTower {
  std::int64_t num_layers;
  std::int64_t hidden;
  std::int64_t intermediate;
};
constexpr Qwen3VlTower kSmallTower = {24, 1024, 4096};
constexpr Qwen3VlTower kLargeTower = {27, 1152, 4304};

VisionShape qwen3_vl_vision(const Qwen3VlTower& tower, std::int64_t text_hidden) {
  VisionShape shape = {.num_layers = tower.num_layers,
                       .hidden = tower.hidden,
                       .intermediate = tower.intermediate,
                       .num_heads = 16,
                       .patch_px = 16,
                       .image_px = 0,
                       .frames_per_image = 2,
                       .class_tokens = 0,
                       .pool_stride = 2,
                       .num_positions = 2304};
  const std::int64_t merged = 4 * tower.hidden;
  shape.num_other_weights =
      tower.hidden + tower.num_layers * vit_layer_vectors(tower.hidden, tower.intermediate);
  constexpr std::int64_t kNumMergers = 4;  // the final one, and three of DeepStack
  for (std::int64_t i = 0; i < kNumMergers; ++i) {
    shape.projector.push_back({merged, merged});
    shape.projector.push_back({text_hidden, merged});
    const std::int64_t norm_width = i == 0 ? tower.hidden : merged;
    shape.num_other_weights += 2 * norm_width + merged + text_hidden;
  }
  shape.text_tokens_per_image = 9;  // "<0.3 seconds>" and the marks before and after the tokens
  return shape;
}

// The model in samples/: 112 pixels in patches of 14.
VisionShape demo_vision() {
  VisionShape shape = {.num_layers = 4,  // hidden_states[-2] of 5 layers
                       .hidden = 192,
                       .intermediate = 512,
                       .num_heads = 6,
                       .patch_px = 14,
                       .image_px = 112,
                       .pool_stride = 2,
                       .num_positions = 65};
  shape.num_other_weights = 3 * 192 + 4 * vit_layer_vectors(192, 512) + 2 * 256;
  shape.projector = {{256, 192}, {256, 256}};
  return shape;
}

TextShape demo_text() {
  return {.num_layers = 4,
          .hidden = 256,
          .intermediate = 512,
          .num_heads = 4,
          .num_kv_heads = 2,
          .head_dim = 64,
          .vocab = 1280,
          .max_positions = 1024};
}

ModelShape text_model(const TextShape& text) {
  return {.name = {}, .text = text, .vision = std::nullopt, .stored_dtype = DType::kBF16};
}

ModelShape captioner(const TextShape& text, const VisionShape& vision) {
  return {.name = {}, .text = text, .vision = vision, .stored_dtype = DType::kBF16};
}

struct Known {
  const char* name;
  const char* hub_name;
  KnownSupport support;
  ModelShape (*make)();
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
    Known{"demo", "samples/demo-model", kRuns,
          [] { return captioner(demo_text(), demo_vision()); }},
    Known{"qwen3-0.6b", "Qwen/Qwen3-0.6B", kByteLevel, [] { return text_model(qwen3(k0p6B)); }},
    Known{"qwen3-1.7b", "Qwen/Qwen3-1.7B", kByteLevel, [] { return text_model(qwen3(k1p7B)); }},
    Known{"qwen3-4b", "Qwen/Qwen3-4B", kByteLevel, [] { return text_model(qwen3(k4B)); }},
    Known{"qwen3-8b", "Qwen/Qwen3-8B", kByteLevel, [] { return text_model(qwen3(k8B)); }},
    Known{"qwen3-14b", "Qwen/Qwen3-14B", kByteLevel, [] { return text_model(qwen3(k14B)); }},
    Known{"qwen3-32b", "Qwen/Qwen3-32B", kByteLevel, [] { return text_model(qwen3(k32B)); }},
    Known{"llama-7b", "lmsys/vicuna-7b-v1.5", kIsPart,
          [] { return text_model(llama_7b(32000, 4096)); }},
    Known{"clip-l-336", "openai/clip-vit-large-patch14-336", kIsPart,
          [] {
            return ModelShape{.name = {},
                              .text = std::nullopt,
                              .vision = clip_l_336(24),
                              .stored_dtype = DType::kF32};
          }},
    Known{"llava-next-video-7b", "llava-hf/LLaVA-NeXT-Video-7B-hf", kRuns,
          [] { return captioner(llama_7b(32064, 10240), llava_vision(4096)); }},
    Known{"qwen3-vl-2b", "Qwen/Qwen3-VL-2B-Instruct", kQwen3Vl,
          [] {
            return captioner(qwen3(k1p7B, kQwen3VlPositions), qwen3_vl_vision(kSmallTower, 2048));
          }},
    Known{"qwen3-vl-4b", "Qwen/Qwen3-VL-4B-Instruct", kQwen3Vl,
          [] {
            return captioner(qwen3(k4B, kQwen3VlPositions), qwen3_vl_vision(kSmallTower, 2560));
          }},
    Known{"qwen3-vl-8b", "Qwen/Qwen3-VL-8B-Instruct", kQwen3Vl,
          [] {
            return captioner(qwen3(k8B, kQwen3VlPositions), qwen3_vl_vision(kLargeTower, 4096));
          }},
    Known{"qwen3-vl-32b", "Qwen/Qwen3-VL-32B-Instruct", kQwen3Vl,
          [] {
            return captioner(qwen3(k32B, kQwen3VlPositions), qwen3_vl_vision(kLargeTower, 5120));
          }},
    Known{"internvl3.5-8b", "OpenGVLab/InternVL3_5-8B-HF", kInternVl,
          [] { return captioner(qwen3(k8B), intern_vit_300m(4096)); }},
    Known{"internvl3.5-14b", "OpenGVLab/InternVL3_5-14B-HF", kInternVl,
          [] { return captioner(qwen3(k14B), intern_vit_300m(5120)); }},
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

std::optional<ModelShape> find_known_shape(std::string_view name) {
  const Known* const known = find_known(name);
  if (known == nullptr) return std::nullopt;
  ModelShape shape = known->make();
  shape.name = known->hub_name;
  return shape;
}

std::optional<KnownSupport> find_known_support(std::string_view name) {
  const Known* const known = find_known(name);
  return known == nullptr ? std::nullopt : std::optional<KnownSupport>(known->support);
}

std::vector<std::string> known_shape_names() {
  std::vector<std::string> names;
  for (const Known& known : kKnown) names.emplace_back(known.name);
  return names;
}

}  // namespace caption::model
