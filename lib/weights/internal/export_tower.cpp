#include "weights/internal/export_tower.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/mend_advice.h"
#include "base/open_file.h"
#include "weights/internal/own_keys.h"

namespace caption::weights {
namespace {

constexpr std::int64_t kMaxExtent = std::int64_t{1} << 20;

// The dimensions that every tower has, with the class defaults of its family.
struct TowerSizes {
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t image_px = 0;
  std::int64_t patch_px = 0;
};

struct Normalisation {
  std::vector<double> mean;
  std::vector<double> deviation;
};
const Normalisation kClip = {{0.48145466, 0.4578275, 0.40821073},
                             {0.26862954, 0.26130258, 0.27577711}};
const Normalisation kImageNet = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
const Normalisation kHalf = {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}};

JsonObject vision_of(const ExportedModel& model) {
  if (auto vision = model.config.get_object("vision_config")) return *vision;
  fail_bad_file(model.config.name() + ": vision_config is missing");
}

// image_size and patch_size of InternVL are a number, or a list of two equal ones.
std::int64_t edge_of(const JsonObject& vision, std::string_view key, std::int64_t fallback) {
  const std::vector<std::int64_t> edges = vision.get_ints(key);
  if (edges.empty()) return fallback;
  if (edges.front() < 1 || edges.front() > kMaxExtent || edges.front() != edges.back()) {
    refuse_export(vision, std::string(key) + ": only squares are supported");
  }
  return edges.front();
}

TowerSizes read_sizes(const JsonObject& vision, const TowerSizes& defaults, const char* layers,
                      const char* heads) {
  const auto extent = [&](std::string_view key, std::int64_t fallback) {
    return vision.get_int(key, fallback, 1, kMaxExtent);
  };
  return {.hidden = extent("hidden_size", defaults.hidden),
          .intermediate = extent("intermediate_size", defaults.intermediate),
          .num_layers = extent(layers, defaults.num_layers),
          .num_heads = extent(heads, defaults.num_heads),
          .image_px = edge_of(vision, "image_size", defaults.image_px),
          .patch_px = edge_of(vision, "patch_size", defaults.patch_px)};
}

// The processor's means and deviations; those of the family where no file says them.
Normalisation read_normalisation(const std::filesystem::path& folder, Normalisation found) {
  for (const char* const name : {"preprocessor_config.json", "video_preprocessor_config.json"}) {
    const std::filesystem::path path = folder / name;
    if (!is_present(path)) continue;
    const JsonObject config = JsonObject::open(path, ErrorCode::kBadModel);
    if (config.has("image_mean")) found.mean = config.get_doubles("image_mean");
    if (config.has("image_std")) found.deviation = config.get_doubles("image_std");
    break;
  }
  return found;
}

void add_shared(const ExportedModel& model, const TowerSizes& sizes, const Normalisation& pixels,
                GgufFields& fields) {
  const auto add = [&](const char* key, std::int64_t value) {
    fields.add(std::string("clip.vision.") + key, static_cast<std::uint32_t>(value));
  };
  const auto floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  fields.add("clip.has_vision_encoder", true);
  add("projection_dim", model.text.hidden);
  add("image_size", sizes.image_px);
  add("patch_size", sizes.patch_px);
  add("embedding_length", sizes.hidden);
  add("feed_forward_length", sizes.intermediate);
  add("block_count", sizes.num_layers);
  add("attention.head_count", sizes.num_heads);
  fields.add_list("clip.vision.image_mean", floats(pixels.mean))
      .add_list("clip.vision.image_std", floats(pixels.deviation));
}

void add_eps(double eps, GgufFields& fields) {
  fields.add("clip.vision.attention.layer_norm_epsilon", static_cast<float>(eps));
}

std::vector<std::int64_t> read_layers(const JsonObject& vision, std::string_view key,
                                      std::vector<std::int64_t> fallback, std::int64_t depth) {
  std::vector<std::int64_t> layers = vision.has(key) ? vision.get_ints(key) : std::move(fallback);
  for (const std::int64_t layer : layers) {
    if (layer < 0 || layer >= depth) {
      fail_bad_file(vision.name() + ": " + std::string(key) + " must be below depth, " +
                    std::to_string(depth) + ", found " + std::to_string(layer));
    }
  }
  return layers;
}

void require_two_frames(const JsonObject& vision) {
  if (vision.get_int("temporal_patch_size", 2, 1, 64) == 2) return;
  refuse_export(vision, "temporal_patch_size: GGUF files hold kernels of 2 frames");
}

ExportedTower add_qwen2_5_vl(const ExportedModel& model, const std::filesystem::path& folder,
                             GgufFields& fields) {
  const JsonObject vision = vision_of(model);
  const TowerSizes sizes = read_sizes(vision, {3584, 3420, 32, 16, 560, 14}, "depth", "num_heads");
  require_two_frames(vision);
  require_value(vision, "hidden_act", "silu", "silu");
  const std::vector<std::int64_t> full =
      read_layers(vision, "fullatt_block_indexes", {7, 15, 23, 31}, sizes.num_layers);
  const std::int64_t pattern = full.empty() ? 0 : full.front() + 1;
  std::vector<std::int64_t> regular;
  for (std::int64_t i = pattern; pattern > 0 && i <= sizes.num_layers; i += pattern) {
    regular.push_back(i - 1);
  }
  if (full.empty() || full != regular) {
    refuse_export(
        vision, "fullatt_block_indexes: GGUF files hold layers at equal distances up to the last");
  }
  add_shared(model, sizes, read_normalisation(folder, kClip), fields);
  fields.add_text("clip.projector_type", "qwen2.5vl_merger")
      .add("clip.use_silu", true)
      .add("clip.vision.n_wa_pattern", static_cast<std::uint32_t>(pattern));
  add_eps(1e-6, fields);
  fields
      .add("clip.vision.window_size",
           static_cast<std::uint32_t>(vision.get_int("window_size", 112, 1, kMaxExtent)))
      .add("clip.vision.spatial_merge_size",
           static_cast<std::uint32_t>(vision.get_int("spatial_merge_size", 2, 1, 64)));
  const std::int64_t per_second = vision.get_int("tokens_per_second", 4, 0, 1000);
  if (per_second != 2) {
    fields.add(kGgufTokensPerSecondKey, static_cast<std::uint32_t>(per_second));
  }
  return {.projector_type = "qwen2.5vl_merger", .num_layers = sizes.num_layers, .mergers = {}};
}

ExportedTower add_qwen3_vl(const ExportedModel& model, const std::filesystem::path& folder,
                           GgufFields& fields) {
  const JsonObject vision = vision_of(model);
  TowerSizes sizes = read_sizes(vision, {1152, 4304, 27, 16, 0, 16}, "depth", "num_heads");
  require_two_frames(vision);
  require_value(vision, "hidden_act", "gelu_pytorch_tanh", "gelu_pytorch_tanh");
  const auto positions =
      static_cast<double>(vision.get_int("num_position_embeddings", 2304, 1, kMaxExtent));
  if (sizes.image_px == 0) {
    sizes.image_px =
        static_cast<std::int64_t>(std::sqrt(positions) * static_cast<double>(sizes.patch_px));
  }
  const std::vector<std::int64_t> layers =
      read_layers(vision, "deepstack_visual_indexes", {8, 16, 24}, sizes.num_layers);
  std::vector<bool> is_deepstack(static_cast<std::size_t>(sizes.num_layers));
  for (const std::int64_t layer : layers) is_deepstack[static_cast<std::size_t>(layer)] = true;
  add_shared(model, sizes, read_normalisation(folder, kHalf), fields);
  fields.add_text("clip.projector_type", "qwen3vl_merger")
      .add("clip.use_gelu", true)
      .add("clip.vision.spatial_merge_size",
           static_cast<std::uint32_t>(vision.get_int("spatial_merge_size", 2, 1, 64)));
  add_eps(model.text.rms_norm_eps, fields);
  fields.add_list("clip.vision.is_deepstack_layers", is_deepstack);
  return {.projector_type = "qwen3vl_merger", .num_layers = sizes.num_layers, .mergers = layers};
}

ExportedTower add_internvl(const ExportedModel& model, const std::filesystem::path& folder,
                           GgufFields& fields) {
  const bool is_chat = model.family == ExportFamily::kInternVlChat;
  const JsonObject vision = vision_of(model);
  const TowerSizes hub = {1024, 4096, 24, 16, 448, 14};
  const TowerSizes chat = {3200, 12800, 48, 25, 224, 14};
  const TowerSizes sizes =
      read_sizes(vision, is_chat ? chat : hub, "num_hidden_layers", "num_attention_heads");
  require_value(vision, "hidden_act", "gelu", "gelu");
  require_value(model.config, "projector_hidden_act", "gelu", "gelu");
  if (is_chat) require_value(model.config, "ps_version", "v1", "v2");
  const double ratio = model.config.get_double("downsample_ratio", 0.5);
  const double scale = 1 / ratio;
  if (!(scale >= 1) || scale > 64 || scale != std::floor(scale)) {
    fail_bad_file(model.config.name() +
                  ": downsample_ratio must be 1 / n for a whole number n, found " +
                  json_number(ratio));
  }
  add_shared(model, sizes, read_normalisation(folder, kImageNet), fields);
  fields.add_text("clip.projector_type", "internvl");
  add_eps(vision.get_double("layer_norm_eps", 1e-6), fields);
  fields.add("clip.use_gelu", true)
      .add("clip.vision.projector.scale_factor", static_cast<std::uint32_t>(scale));
  for (const char* const side : {"min", "max"}) {
    const std::string key = std::string(side) + "_dynamic_patch";
    const std::int64_t tiles = model.config.get_int(key, 0, 0, kMaxExtent);
    if (tiles == 0) continue;
    fields.add("clip.vision.preproc_" + std::string(side) + "_tiles",
               static_cast<std::uint32_t>(tiles));
  }
  return {.projector_type = "internvl", .num_layers = sizes.num_layers, .mergers = {}};
}

// The hidden states that the projector gets, counted from the embedding, 0.
std::vector<std::int32_t> feature_layers(const ExportedModel& model, std::int64_t num_layers) {
  std::vector<std::int64_t> layers = model.config.get_ints("vision_feature_layer");
  if (layers.empty()) layers.push_back(-2);
  std::vector<std::int32_t> states;
  for (const std::int64_t layer : layers) {
    const std::int64_t state = layer < 0 ? num_layers + 1 + layer : layer;
    if (state < 1 || state > num_layers) {
      fail_bad_file(model.config.name() + ": vision_feature_layer " + std::to_string(layer) +
                    " does not exist: the tower has " + std::to_string(num_layers) + " layers");
    }
    states.push_back(static_cast<std::int32_t>(state));
  }
  return states;
}

ExportedTower add_llava(const ExportedModel& model, const std::filesystem::path& folder,
                        GgufFields& fields) {
  const JsonObject vision = vision_of(model);
  require_value(vision, "model_type", "clip_vision_model", "clip_vision_model");
  TowerSizes sizes =
      read_sizes(vision, {768, 3072, 12, 12, 224, 32}, "num_hidden_layers", "num_attention_heads");
  require_value(model.config, "spatial_pool_mode", "average", "average");
  require_value(model.config, "projector_hidden_act", "gelu", "gelu");
  require_value(model.config, "vision_feature_select_strategy", "default", "default");
  if (model.config.get_int("spatial_pool_stride", 2, 1, 4096) != 2) {
    refuse_export(model.config,
                  "spatial_pool_stride: GGUF files hold no stride; their reader takes 2");
  }
  const std::string act = vision.get_string("hidden_act", "quick_gelu");
  if (act != "quick_gelu" && act != "gelu" && act != "silu") {
    refuse_export(vision, "hidden_act " + json_quote(act) +
                              " has no form in a GGUF file; quick_gelu, gelu and silu have");
  }
  const std::vector<std::int32_t> states = feature_layers(model, sizes.num_layers);
  sizes.num_layers = *std::max_element(states.begin(), states.end());
  add_shared(model, sizes, read_normalisation(folder, kClip), fields);
  fields.add_text("clip.projector_type", "mlp").add("clip.has_llava_projector", true);
  add_eps(vision.get_double("layer_norm_eps", 1e-5), fields);
  fields.add_list("clip.vision.feature_layer", states).add("clip.use_gelu", act == "gelu");
  if (act == "silu") fields.add("clip.use_silu", true);
  return {.projector_type = "mlp", .num_layers = sizes.num_layers, .mergers = {}};
}

}  // namespace

ExportedTower read_exported_tower(const ExportedModel& model, const std::filesystem::path& folder,
                                  GgufFields& fields) {
  switch (model.family) {
    case ExportFamily::kQwen25Vl: return add_qwen2_5_vl(model, folder, fields);
    case ExportFamily::kQwen3Vl: return add_qwen3_vl(model, folder, fields);
    case ExportFamily::kLlava: return add_llava(model, folder, fields);
    case ExportFamily::kInternVl:
    case ExportFamily::kInternVlChat: return add_internvl(model, folder, fields);
    case ExportFamily::kText: break;
  }
  throw Error(ErrorCode::kInternal, "read_exported_tower: a language model has none");
}

}  // namespace caption::weights
